// Package sqlclients tests the SQL door with pgx 5 and database/sql.
//
// CLIENTS_SQL is the address of the server. Each test has a schema of its own.
package sqlclients

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

var address = os.Getenv("CLIENTS_SQL")

// within returns a context that ends before the test binary does.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// newSchema makes a schema for a test and returns its name.
func newSchema(t *testing.T) string {
	ctx := within(t)
	schema := fmt.Sprintf("g%d_%d", os.Getpid(), time.Now().UnixNano())
	run := func(statement string) {
		connection, err := pgx.Connect(ctx, address)
		if err != nil {
			t.Fatal(err)
		}
		defer connection.Close(ctx)
		if _, err := connection.Exec(ctx, statement); err != nil {
			t.Error(err)
		}
	}
	run("CREATE SCHEMA " + schema)
	t.Cleanup(func() { run("DROP SCHEMA " + schema + " CASCADE") })
	return schema
}

// newPool returns a pool whose sessions find tables in a schema of the test.
func newPool(t *testing.T) *pgxpool.Pool {
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		t.Fatal(err)
	}
	config.ConnConfig.RuntimeParams["search_path"] = newSchema(t)
	config.MaxConns = 8
	pool, err := pgxpool.NewWithConfig(within(t), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
