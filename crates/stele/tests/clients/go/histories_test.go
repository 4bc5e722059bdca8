package clients

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"github.com/anishathalye/porcupine"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	historyClients = 8
	// Rows in use at a time: few, so that clients meet.
	historyRows = 4
	// Operations after which a row gives way to a new one.
	rowLife = 240
	// Operations without an end after which it does, too: each of them doubles what is to be checked.
	openMax = 4
)

// TestHistories records what concurrent clients ask and are told of a few rows, while somebody
// else kills the server and restarts it, and checks each row for linearizability.
func TestHistories(t *testing.T) {
	if phase != "histories" {
		t.Skip("of the phase histories")
	}
	seed, seconds := number(t, "CLIENTS_SEED"), number(t, "CLIENTS_SECONDS")
	createInspiteOfKills(t)
	h := newHistorian(t, os.Getenv("BIGTABLE_EMULATOR_HOST"))
	h.record(t, seed, time.Now().Add(time.Duration(seconds)*time.Second))
	h.conclude(t)
}

// record lets all clients work until the end.
func (h *historian) record(t *testing.T, seed int64, end time.Time) {
	t.Helper()
	var clients sync.WaitGroup
	for id := range historyClients {
		clients.Add(1)
		go func() {
			defer clients.Done()
			c := newHistoryClient(h, id, seed<<8+int64(id))
			for time.Now().Before(end) && !t.Failed() {
				c.step()
			}
		}()
	}
	clients.Wait()
}

// conclude judges the rows and tells how much was seen.
func (h *historian) conclude(t *testing.T) {
	t.Helper()
	h.check(t)
	fmt.Printf("histories: %d operations on %d rows, %d with an outcome that nobody was told\n",
		h.operations, len(h.rows), h.doubts)
	if len(h.rows) < 2*historyRows {
		t.Errorf("only %d rows were used", len(h.rows))
	}
}

func createInspiteOfKills(t *testing.T, splits ...string) {
	t.Helper()
	conf := &bigtable.TableConf{TableID: "histories", ColumnFamilies: plain("f"), SplitKeys: splits}
	for {
		err := admin.CreateTableFromConf(ctx, conf)
		if err == nil || status.Code(err) == codes.AlreadyExists {
			return
		}
		// A cluster refuses tables until enough of its nodes are alive.
		if code := status.Code(err); code != codes.Unavailable && code != codes.FailedPrecondition {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func number(t *testing.T, variable string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(os.Getenv(variable), 10, 64)
	ok(t, err)
	return n
}

// historian keeps the history of each row.
type historian struct {
	t     *testing.T
	begun time.Time
	// One for each node.
	nodes []bigtablepb.BigtableClient

	mutex      sync.Mutex
	rows       map[string][]porcupine.Operation
	open       map[string]int
	current    [historyRows]int
	operations int
	doubts     int
}

func newHistorian(t *testing.T, addresses ...string) *historian {
	h := &historian{
		t: t, begun: time.Now(), rows: map[string][]porcupine.Operation{}, open: map[string]int{},
	}
	for _, address := range addresses {
		h.nodes = append(h.nodes, bigtablepb.NewBigtableClient(dial(t, address)))
	}
	return h
}

// dial connects to a server, and again and again to one that is not there.
func dial(t *testing.T, address string) *grpc.ClientConn {
	t.Helper()
	quick := backoff.Config{BaseDelay: 5 * time.Millisecond, Multiplier: 1.2, MaxDelay: 50 * time.Millisecond}
	conn, err := grpc.NewClient(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: quick, MinConnectTimeout: time.Second}))
	ok(t, err)
	return conn
}

// row names the row in use at a place.
func (h *historian) row(place int) string {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	name := fmt.Sprintf("%d-%d", place, h.current[place])
	if len(h.rows[name]) >= rowLife || h.open[name] >= openMax {
		h.current[place]++
		name = fmt.Sprintf("%d-%d", place, h.current[place])
	}
	return name
}

func (h *historian) now() int64 { return time.Since(h.begun).Nanoseconds() }

// note records an operation that ends now.
func (h *historian) note(row string, operation porcupine.Operation) {
	operation.Return = h.now()
	h.keep(row, operation)
}

// noteOpen records an operation that may take effect at any later time, or never.
func (h *historian) noteOpen(row string, operation porcupine.Operation) {
	operation.Return = math.MaxInt64
	h.keep(row, operation)
}

func (h *historian) keep(row string, operation porcupine.Operation) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	h.operations++
	if operation.Return == math.MaxInt64 {
		h.open[row]++
	}
	if !operation.Output.(answer).known {
		h.doubts++
	}
	h.rows[row] = append(h.rows[row], operation)
}

// check fails the test for each row whose history is of no row.
func (h *historian) check(t *testing.T) {
	for row, history := range h.rows {
		switch judge(history) {
		case porcupine.Illegal:
			t.Errorf("row %s is not linearizable:\n%s", row, describe(history))
		case porcupine.Unknown:
			// It is no proof either.
			t.Errorf("row %s takes too long to check:\n%s", row, describe(history))
		}
	}
}

// historyClient makes one operation after the other.
type historyClient struct {
	h     *historian
	id    int
	rng   *rand.Rand
	count int
	// The node that is asked now.
	node int
	// The newest value last read, by row.
	last map[string]string
	// What was told nothing, by row, until the server is back.
	doubts map[string]porcupine.Operation
}

func newHistoryClient(h *historian, id int, seed int64) *historyClient {
	return &historyClient{
		h: h, id: id, rng: rand.New(rand.NewSource(seed)), node: id % len(h.nodes),
		last: map[string]string{}, doubts: map[string]porcupine.Operation{},
	}
}

// deadline bounds a request: a node that stands still never answers.
func (c *historyClient) deadline() (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, 15*time.Second)
}

func (c *historyClient) client() bigtablepb.BigtableClient { return c.h.nodes[c.node] }

// value is one that nobody else writes.
func (c *historyClient) value() string {
	c.count++
	return fmt.Sprintf("c%dn%d", c.id, c.count)
}

func (c *historyClient) step() {
	row := c.h.row(c.rng.Intn(historyRows))
	var err error
	switch draw := c.rng.Intn(100); {
	case draw < 40:
		err = c.read(row)
	case draw < 60:
		err = c.change(row, request{kind: opWrite, value: c.value()})
	case draw < 64:
		err = c.change(row, request{kind: opClear})
	case draw < 68:
		err = c.change(row, request{kind: opReplace, value: c.value()})
	case draw < 78:
		err = c.changeMany()
	case draw < 90:
		err = c.checkAndMutate(row)
	default:
		err = c.appendTo(row)
	}
	switch {
	case err == nil:
	case len(c.h.nodes) > 1:
		c.leave(err)
	default:
		c.wait(err)
	}
}

// note records what was asked of a row and what was told, or keeps it until it is over.
func (c *historyClient) note(row string, asked request, told answer, call int64) {
	operation := porcupine.Operation{ClientId: c.id, Input: asked, Call: call, Output: told}
	switch {
	case told.known:
		c.h.note(row, operation)
	case asked.kind != opRead:
		c.doubts[row] = operation
	}
}

// wait lets the server come back after an error that a kill explains. What it was asked before may
// have taken effect until then, or not at all: the process that was asked is no more. Until then
// nothing else is asked of the rows.
func (c *historyClient) wait(err error) {
	for err != nil {
		if code := status.Code(err); code != codes.Unavailable {
			c.h.t.Errorf("a kill does not explain %v", err)
			return
		}
		time.Sleep(5 * time.Millisecond)
		_, err = c.versions("probe")
	}
	for row, operation := range c.doubts {
		c.h.note(row, operation)
	}
	c.doubts = map[string]porcupine.Operation{}
}

// leave asks another node after an error that a fault explains. What was asked before may take effect at
// any later time: it may lie in the log of a node that is cut off, or be one of several entries of which a
// full disk refused another.
func (c *historyClient) leave(err error) {
	switch status.Code(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted:
	default:
		c.h.t.Errorf("a fault does not explain %v", err)
		return
	}
	for row, operation := range c.doubts {
		c.h.noteOpen(row, operation)
	}
	c.doubts = map[string]porcupine.Operation{}
	c.node = (c.node + 1) % len(c.h.nodes)
	time.Sleep(20 * time.Millisecond)
}

// versions reads all versions of a row, newest first.
func (c *historyClient) versions(row string) ([]cell, error) {
	ctx, cancel := c.deadline()
	defer cancel()
	stream, err := c.client().ReadRows(ctx, &bigtablepb.ReadRowsRequest{
		TableName: tableName, Rows: &bigtablepb.RowSet{RowKeys: [][]byte{[]byte(row)}},
	})
	if err != nil {
		return nil, err
	}
	var cells []cell
	for {
		message, err := stream.Recv()
		if err != nil {
			if err == io.EOF {
				return cells, nil
			}
			return nil, err
		}
		for _, chunk := range message.GetChunks() {
			cells = append(cells, cell{string(chunk.GetValue()), chunk.GetTimestampMicros()})
		}
	}
}

func (c *historyClient) read(row string) error {
	call := c.h.now()
	cells, err := c.versions(row)
	c.note(row, request{kind: opRead}, answer{known: err == nil, cells: cells}, call)
	if err == nil {
		c.last[row] = ""
		if len(cells) > 0 {
			c.last[row] = cells[0].value
		}
	}
	return err
}

func (c *historyClient) change(row string, asked request) error {
	ctx, cancel := c.deadline()
	defer cancel()
	call := c.h.now()
	_, err := c.client().MutateRow(ctx, &bigtablepb.MutateRowRequest{
		TableName: tableName, RowKey: []byte(row), Mutations: asked.mutations(),
	})
	c.note(row, asked, answer{known: err == nil}, call)
	return err
}

// changeMany writes all rows in use with one request.
func (c *historyClient) changeMany() error {
	var rows []string
	var asked []request
	var entries []*bigtablepb.MutateRowsRequest_Entry
	for place := range historyRows {
		rows = append(rows, c.h.row(place))
		asked = append(asked, request{kind: opWrite, value: c.value()})
		entries = append(entries, &bigtablepb.MutateRowsRequest_Entry{
			RowKey: []byte(rows[place]), Mutations: asked[place].mutations(),
		})
	}
	call := c.h.now()
	told := make([]answer, len(rows))
	err := c.mutateRows(entries, told)
	for at, row := range rows {
		c.note(row, asked[at], told[at], call)
	}
	return err
}

func (c *historyClient) mutateRows(entries []*bigtablepb.MutateRowsRequest_Entry, told []answer) error {
	ctx, cancel := c.deadline()
	defer cancel()
	stream, err := c.client().MutateRows(ctx, &bigtablepb.MutateRowsRequest{TableName: tableName, Entries: entries})
	if err != nil {
		return err
	}
	for {
		message, err := stream.Recv()
		if err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		for _, entry := range message.GetEntries() {
			if code := codes.Code(entry.GetStatus().GetCode()); code != codes.OK {
				return status.Error(code, entry.GetStatus().GetMessage())
			}
			told[entry.GetIndex()].known = true
		}
	}
}

func (c *historyClient) checkAndMutate(row string) error {
	ctx, cancel := c.deadline()
	defer cancel()
	asked := request{kind: opCheck, value: c.value(), expected: c.last[row]}
	call := c.h.now()
	response, err := c.client().CheckAndMutateRow(ctx, &bigtablepb.CheckAndMutateRowRequest{
		TableName: tableName, RowKey: []byte(row), PredicateFilter: asked.predicate(),
		TrueMutations:  setAtServerTime(asked.value),
		FalseMutations: setAtServerTime(asked.value + otherwise),
	})
	told := answer{known: err == nil, matched: response.GetPredicateMatched()}
	c.note(row, asked, told, call)
	return err
}

func (c *historyClient) appendTo(row string) error {
	ctx, cancel := c.deadline()
	defer cancel()
	asked := request{kind: opAppend, value: "_" + c.value()}
	call := c.h.now()
	response, err := c.client().ReadModifyWriteRow(ctx, &bigtablepb.ReadModifyWriteRowRequest{
		TableName: tableName, RowKey: []byte(row),
		Rules: []*bigtablepb.ReadModifyWriteRule{{
			FamilyName: "f", ColumnQualifier: []byte("q"),
			Rule: &bigtablepb.ReadModifyWriteRule_AppendValue{AppendValue: []byte(asked.value)},
		}},
	})
	told := answer{known: err == nil}
	if err == nil {
		made := response.GetRow().GetFamilies()[0].GetColumns()[0].GetCells()[0]
		told.cells = []cell{{string(made.GetValue()), made.GetTimestampMicros()}}
	}
	c.note(row, asked, told, call)
	return err
}
