// Command load drives one server with Google's Go client. Each line of its standard input asks for
// a phase of work, and it answers each with a line of JSON:
//
//	fill                 write every row once
//	WORK SECONDS         do WORK again and again for so long
//
// WORK is read, write, modify, bulk or scan. An error ends the program.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
)

const (
	project  = "bench"
	instance = "door"
	family   = "f"
	// bulkRows is the number of rows of a bulk mutation.
	bulkRows = 100
	// scanRows is the number of rows that a scan reads.
	scanRows = 1000
	// version is the timestamp of every written cell: rows do not grow while they are written.
	version = bigtable.Timestamp(1_000_000)
)

var (
	address    = flag.String("address", "", "HOST:PORT of the server")
	goroutines = flag.Int("goroutines", 32, "requests in flight")
	rows       = flag.Int("rows", 10_000, "rows of the table")
	valueBytes = flag.Int("value-bytes", 1024, "bytes of each value")
	create     = flag.Bool("create", true, "create the table")
	ca         = flag.String("ca", "", "certificates of the CA of a server that speaks TLS")
	tokenFile  = flag.String("token-file", "", "file of a token to show with each call")
)

// Answer tells what a phase did.
type Answer struct {
	Operations int     `json:"operations"`
	Seconds    float64 `json:"seconds"`
	P50        int64   `json:"p50_us"`
	P99        int64   `json:"p99_us"`
}

// Loader is a client with its table.
type Loader struct {
	ctx   context.Context
	table *bigtable.Table
}

// Worker is one goroutine of a loader.
type Worker struct {
	*Loader
	random *rand.Rand
	value  []byte
}

func main() {
	flag.Parse()
	loader, err := open(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	answers := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		answer, err := loader.phase(strings.Fields(lines.Text()))
		if err != nil {
			log.Fatalf("%s: %v", lines.Text(), err)
		}
		if err := answers.Encode(answer); err != nil {
			log.Fatal(err)
		}
	}
}

// Bearer shows a token with each call.
type Bearer struct{ header map[string]string }

func (b Bearer) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return b.header, nil
}

func (Bearer) RequireTransportSecurity() bool { return true }

// security returns how the loader connects, and what it shows.
func security() ([]grpc.DialOption, error) {
	transport, options := insecure.NewCredentials(), []grpc.DialOption{}
	if *ca != "" {
		var err error
		if transport, err = credentials.NewClientTLSFromFile(*ca, ""); err != nil {
			return nil, err
		}
	}
	if *tokenFile != "" {
		token, err := os.ReadFile(*tokenFile)
		if err != nil {
			return nil, err
		}
		shown := map[string]string{"authorization": "Bearer " + strings.TrimSpace(string(token))}
		options = append(options, grpc.WithPerRPCCredentials(Bearer{shown}))
	}
	return append(options, grpc.WithTransportCredentials(transport)), nil
}

func open(ctx context.Context) (*Loader, error) {
	options, err := security()
	if err != nil {
		return nil, err
	}
	options = append(options, grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<28)))
	conn, err := grpc.NewClient(*address, options...)
	if err != nil {
		return nil, err
	}
	if *create {
		if err := createTable(ctx, conn); err != nil {
			return nil, err
		}
	}
	config := bigtable.ClientConfig{MetricsProvider: bigtable.NoopMetricsProvider{}}
	client, err := bigtable.NewClientWithConfig(ctx, project, instance, config, option.WithGRPCConn(conn))
	if err != nil {
		return nil, err
	}
	return &Loader{ctx, client.Open("t")}, nil
}

func createTable(ctx context.Context, conn *grpc.ClientConn) error {
	admin, err := bigtable.NewAdminClient(ctx, project, instance, option.WithGRPCConn(conn))
	if err != nil {
		return err
	}
	return admin.CreateTableFromConf(ctx, &bigtable.TableConf{
		TableID:  "t",
		Families: map[string]bigtable.GCPolicy{family: bigtable.MaxVersionsPolicy(1)},
	})
}

func (l *Loader) phase(words []string) (Answer, error) {
	if len(words) == 1 && words[0] == "fill" {
		return l.fill()
	}
	if len(words) != 2 {
		return Answer{}, fmt.Errorf("fill, or WORK SECONDS")
	}
	length, err := time.ParseDuration(words[1] + "s")
	if err != nil {
		return Answer{}, err
	}
	work := map[string]func(*Worker) error{
		"read":   (*Worker).read,
		"write":  (*Worker).write,
		"modify": (*Worker).modify,
		"bulk":   (*Worker).bulk,
		"scan":   (*Worker).scan,
	}[words[0]]
	if work == nil {
		return Answer{}, fmt.Errorf("no such work")
	}
	end := time.Now().Add(length)
	return l.together(func(w *Worker, note func(time.Duration)) error {
		for begin := time.Now(); begin.Before(end); begin = time.Now() {
			if err := work(w); err != nil {
				return err
			}
			note(time.Since(begin))
		}
		return nil
	})
}

// fill writes every row once.
func (l *Loader) fill() (Answer, error) {
	var next, taken = 0, sync.Mutex{}
	return l.together(func(w *Worker, note func(time.Duration)) error {
		for {
			taken.Lock()
			first := next
			next += bulkRows
			taken.Unlock()
			if first >= *rows {
				return nil
			}
			begin := time.Now()
			if err := w.write100(first); err != nil {
				return err
			}
			note(time.Since(begin))
		}
	})
}

// together runs work in every goroutine, and puts together how long its operations took.
func (l *Loader) together(work func(*Worker, func(time.Duration)) error) (Answer, error) {
	taken := make([][]time.Duration, *goroutines)
	errs := make(chan error, *goroutines)
	begin := time.Now()
	var all sync.WaitGroup
	for i := range *goroutines {
		all.Go(func() {
			w := &Worker{l, rand.New(rand.NewPCG(uint64(i), 1)), make([]byte, *valueBytes)}
			for at := range w.value {
				w.value[at] = byte(w.random.Uint32())
			}
			errs <- work(w, func(d time.Duration) { taken[i] = append(taken[i], d) })
		})
	}
	all.Wait()
	seconds := time.Since(begin).Seconds()
	for range *goroutines {
		if err := <-errs; err != nil {
			return Answer{}, err
		}
	}
	every := slices.Concat(taken...)
	slices.Sort(every)
	at := func(part float64) int64 {
		if len(every) == 0 {
			return 0
		}
		return every[int(part*float64(len(every)-1))].Microseconds()
	}
	return Answer{len(every), seconds, at(0.5), at(0.99)}, nil
}

func key(number int) string { return fmt.Sprintf("row%010d", number) }

func (w *Worker) anyRow() string { return key(w.random.IntN(*rows)) }

func (w *Worker) read() error {
	row, err := w.table.ReadRow(w.ctx, w.anyRow())
	if err == nil && len(row) == 0 {
		return fmt.Errorf("a row is missing")
	}
	return err
}

func (w *Worker) put() *bigtable.Mutation {
	put := bigtable.NewMutation()
	put.Set(family, "q", version, w.value)
	return put
}

func (w *Worker) write() error { return w.table.Apply(w.ctx, w.anyRow(), w.put()) }

func (w *Worker) modify() error {
	rule := bigtable.NewReadModifyWrite()
	rule.Increment(family, "n", 1)
	_, err := w.table.ApplyReadModifyWrite(w.ctx, w.anyRow(), rule)
	return err
}

func (w *Worker) bulk() error { return w.write100(w.random.IntN(max(1, *rows-bulkRows))) }

func (w *Worker) write100(first int) error {
	keys, puts := make([]string, bulkRows), make([]*bigtable.Mutation, bulkRows)
	for at := range keys {
		keys[at], puts[at] = key(first+at), w.put()
	}
	failed, err := w.table.ApplyBulk(w.ctx, keys, puts)
	if err == nil && failed != nil {
		return fmt.Errorf("an entry failed: %v", failed)
	}
	return err
}

func (w *Worker) scan() error {
	start := key(w.random.IntN(max(1, *rows-scanRows)))
	seen := 0
	err := w.table.ReadRows(w.ctx, bigtable.InfiniteRange(start), func(bigtable.Row) bool {
		seen++
		return true
	}, bigtable.LimitRows(scanRows))
	if err == nil && seen != min(scanRows, *rows) {
		return fmt.Errorf("a scan read %d rows", seen)
	}
	return err
}
