// Package clients runs the official Go client against the server that BIGTABLE_EMULATOR_HOST
// names (or, by TLS and signed in with the key file that CLIENTS_KEY_FILE names, the one at
// CLIENTS_ENDPOINT), on one data directory in phases:
//
//   - CLIENTS_PHASE=first: everything; tables that stay are made and filled.
//   - CLIENTS_PHASE=again: tests that call lasting, after the server was killed and restarted.
//     They only read what the first phase left.
//   - CLIENTS_PHASE=histories: TestHistories alone, for CLIENTS_SECONDS with draws that follow from
//     CLIENTS_SEED, while whoever runs it kills the server and restarts it.
//   - CLIENTS_PHASE=cluster: TestClusterHistories alone, likewise, at the nodes that CLIENTS_NODES lists,
//     whose connections among each other lead through the proxies of CLIENTS_PROXIES.
//   - CLIENTS_PHASE=other: reads of what the suite of another language wrote, in the table that
//     CLIENTS_TABLE names as INSTANCE/TABLE.
package clients

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/api/option"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
)

const (
	project  = "stele-tests"
	instance = "go"
)

var (
	phase  = os.Getenv("CLIENTS_PHASE")
	admin  *bigtable.AdminClient
	client *bigtable.Client
	ctx    context.Context
	tables int
)

func TestMain(m *testing.M) {
	switch phase {
	case "first", "again", "other", "histories", "cluster":
	default:
		fmt.Fprintln(os.Stderr, "CLIENTS_PHASE must be first, again, other, histories or cluster")
		os.Exit(2)
	}
	var cancel context.CancelFunc
	ctx, cancel = context.WithTimeout(context.Background(), patience())
	defer cancel()
	admin, client = open(instance)
	os.Exit(m.Run())
}

// patience is how long all tests together may take.
func patience() time.Duration {
	seconds, _ := strconv.Atoi(os.Getenv("CLIENTS_SECONDS"))
	return 5*time.Minute + time.Duration(seconds)*time.Second
}

// signIn is how a program reaches a server that wants TLS and a key file, nothing for one that does not.
func signIn() []option.ClientOption {
	endpoint := os.Getenv("CLIENTS_ENDPOINT")
	if endpoint == "" {
		return nil
	}
	key := option.WithCredentialsFile(os.Getenv("CLIENTS_KEY_FILE"))
	return []option.ClientOption{option.WithEndpoint(endpoint), key}
}

// open connects as a program that reads large rows must: with BIGTABLE_EMULATOR_HOST alone the
// client takes no message over 4 MiB, and it takes a row only in one message.
func open(instance string) (*bigtable.AdminClient, *bigtable.Client) {
	config := bigtable.ClientConfig{MetricsProvider: bigtable.NoopMetricsProvider{}}
	if options := signIn(); options != nil {
		large := grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1 << 28))
		options = append(options, option.WithGRPCDialOption(large))
		admin, err := bigtable.NewAdminClient(ctx, project, instance, options...)
		if err != nil {
			panic(err)
		}
		client, err := bigtable.NewClientWithConfig(ctx, project, instance, config, options...)
		if err != nil {
			panic(err)
		}
		return admin, client
	}
	conn, err := grpc.NewClient(os.Getenv("BIGTABLE_EMULATOR_HOST"),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(1<<28)))
	if err != nil {
		panic(err)
	}
	admin, err := bigtable.NewAdminClient(ctx, project, instance)
	if err != nil {
		panic(err)
	}
	client, err := bigtable.NewClientWithConfig(ctx, project, instance, config, option.WithGRPCConn(conn))
	if err != nil {
		panic(err)
	}
	return admin, client
}

// firstOnly skips a test of what the first phase does.
func firstOnly(t *testing.T) {
	t.Helper()
	if phase != "first" {
		t.Skip("of the first phase")
	}
}

// lasting skips a test in the phase that reads another client's rows.
func lasting(t *testing.T) {
	t.Helper()
	if phase == "other" {
		t.Skip("of this client's own rows")
	}
}

// newTable makes a table with plain families for one test.
func newTable(t *testing.T, families ...string) (*bigtable.Table, string) {
	t.Helper()
	tables++
	name := fmt.Sprintf("t%d", tables)
	create(t, &bigtable.TableConf{TableID: name, ColumnFamilies: plain(families...)})
	return client.Open(name), name
}

func plain(families ...string) map[string]bigtable.Family {
	out := map[string]bigtable.Family{}
	for _, name := range families {
		out[name] = bigtable.Family{}
	}
	return out
}

func create(t *testing.T, conf *bigtable.TableConf) {
	t.Helper()
	ok(t, admin.CreateTableFromConf(ctx, conf))
}

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused expects an error of this code whose text holds all words.
func refused(t *testing.T, err error, code codes.Code, words ...string) {
	t.Helper()
	if status.Code(err) != code {
		t.Fatalf("want %v, got %v", code, err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q is not said: %v", word, err)
		}
	}
}

func set(family, column string, micros int64, value string) *bigtable.Mutation {
	m := bigtable.NewMutation()
	m.Set(family, column, bigtable.Timestamp(micros), []byte(value))
	return m
}

// keys reads the keys of a row set.
func keys(t *testing.T, table *bigtable.Table, rows bigtable.RowSet, options ...bigtable.ReadOption) []string {
	t.Helper()
	var out []string
	ok(t, table.ReadRows(ctx, rows, func(row bigtable.Row) bool {
		out = append(out, row.Key())
		return true
	}, options...))
	return out
}

func same[T comparable](t *testing.T, got, want []T) {
	t.Helper()
	equal := len(got) == len(want)
	for i := 0; equal && i < len(got); i++ {
		equal = got[i] == want[i]
	}
	if !equal {
		t.Errorf("got  %q\nwant %q", fmt.Sprint(got), fmt.Sprint(want))
	}
}
