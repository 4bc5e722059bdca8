package clients

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand"
	"strings"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func int64Bytes(n int64) string {
	return string(binary.BigEndian.AppendUint64(nil, uint64(n)))
}

// values are the cells of a row as qualifier=value, families by name.
func values(t *testing.T, table *bigtable.Table, key string, options ...bigtable.ReadOption) []string {
	t.Helper()
	row, err := table.ReadRow(ctx, key, options...)
	ok(t, err)
	var out []string
	for _, line := range lines(row) {
		_, cell, _ := strings.Cut(line, " ")
		out = append(out, cell)
	}
	return out
}

func TestDeletes(t *testing.T) {
	firstOnly(t)
	table, _ := newTable(t, "f", "g")
	m := bigtable.NewMutation()
	for _, column := range []string{"a", "b"} {
		for micros := bigtable.Timestamp(1000); micros <= 3000; micros += 1000 {
			m.Set("f", column, micros, []byte("v"))
		}
	}
	m.Set("g", "c", 1000, []byte("v"))
	ok(t, table.Apply(ctx, "r", m))
	m = bigtable.NewMutation()
	m.DeleteTimestampRange("f", "a", 2000, 3000)
	m.DeleteCellsInColumn("f", "b")
	ok(t, table.Apply(ctx, "r", m))
	same(t, values(t, table, "r"), []string{"f:a @3000 = v", "f:a @1000 = v", "g:c @1000 = v"})
	m = bigtable.NewMutation()
	m.DeleteCellsInFamily("f")
	m.Set("f", "d", 1000, []byte("after"))
	ok(t, table.Apply(ctx, "r", m))
	same(t, values(t, table, "r"), []string{"f:d @1000 = after", "g:c @1000 = v"})
	m = bigtable.NewMutation()
	m.DeleteRow()
	ok(t, table.Apply(ctx, "r", m))
	same(t, values(t, table, "r"), nil)
}

func TestBatchReportsBadEntries(t *testing.T) {
	firstOnly(t)
	table, _ := newTable(t, "f")
	rows := []string{"good1", "bad family", "good2", ""}
	mutations := []*bigtable.Mutation{
		set("f", "q", 1000, "v"), set("nothing", "q", 1000, "v"),
		set("f", "q", 1000, "v"), set("f", "q", 1000, "v"),
	}
	errs, err := table.ApplyBulk(ctx, rows, mutations)
	ok(t, err)
	if len(errs) != 4 || errs[0] != nil || errs[2] != nil {
		t.Fatal(errs)
	}
	refused(t, errs[1], codes.NotFound, "nothing")
	refused(t, errs[3], codes.InvalidArgument, "empty")
	same(t, keys(t, table, bigtable.InfiniteRange("")), []string{"good1", "good2"})
}

func TestCheckAndMutate(t *testing.T) {
	firstOnly(t)
	table, _ := newTable(t, "f")
	ok(t, table.Apply(ctx, "r", set("f", "state", 1000, "open")))
	isOpen := bigtable.ChainFilters(bigtable.ColumnFilter("state"), bigtable.LatestNFilter(1), bigtable.ValueFilter("open"))
	closing := bigtable.NewCondMutation(isOpen, set("f", "state", 2000, "closed"), set("f", "refused", 1000, "yes"))
	for _, want := range []bool{true, false} {
		var matched bool
		ok(t, table.Apply(ctx, "r", closing, bigtable.GetCondMutationResult(&matched)))
		if matched != want {
			t.Errorf("matched: %v", matched)
		}
	}
	same(t, values(t, table, "r"), []string{"f:refused @1000 = yes", "f:state @2000 = closed", "f:state @1000 = open"})
}

func TestReadModifyWrite(t *testing.T) {
	firstOnly(t)
	table, _ := newTable(t, "f")
	for round, want := range []string{"ab", "abab", "ababab"} {
		m := bigtable.NewReadModifyWrite()
		m.Increment("f", "n", 3)
		m.AppendValue("f", "log", []byte("ab"))
		row, err := table.ApplyReadModifyWrite(ctx, "r", m)
		ok(t, err)
		same(t, []string{string(row["f"][0].Value), string(row["f"][1].Value)},
			[]string{want, int64Bytes(int64(round+1) * 3)})
	}
}

// Many goroutines count in one cell; none of their increments may be lost or doubled.
func TestConcurrentIncrements(t *testing.T) {
	firstOnly(t)
	table, _ := newTable(t, "f")
	const goroutines, each = 8, 25
	done := make(chan error, goroutines)
	for range goroutines {
		go func() {
			for range each {
				m := bigtable.NewReadModifyWrite()
				m.Increment("f", "n", 1)
				if _, err := table.ApplyReadModifyWrite(ctx, "r", m); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range goroutines {
		ok(t, <-done)
	}
	row, err := table.ReadRow(ctx, "r", bigtable.RowFilter(bigtable.LatestNFilter(1)))
	ok(t, err)
	same(t, []string{string(row["f"][0].Value)}, []string{int64Bytes(goroutines * each)})
}

func TestAggregates(t *testing.T) {
	lasting(t)
	const name = "totals"
	kinds := map[string]bigtable.Aggregator{
		"max": bigtable.MaxAggregator{}, "min": bigtable.MinAggregator{}, "sum": bigtable.SumAggregator{},
	}
	table := client.Open(name)
	if phase == "first" {
		families := map[string]bigtable.Family{}
		for kind, aggregator := range kinds {
			families[kind] = bigtable.Family{ValueType: bigtable.AggregateType{Input: bigtable.Int64Type{}, Aggregator: aggregator}}
		}
		create(t, &bigtable.TableConf{TableID: name, ColumnFamilies: families})
		for _, amount := range []int64{10, 5, -3} {
			m := bigtable.NewMutation()
			for kind := range kinds {
				m.AddIntToCell(kind, "q", 1000, amount)
			}
			ok(t, table.Apply(ctx, "r", m))
		}
		m := bigtable.NewMutation()
		m.MergeBytesToCell("sum", "q", 1000, []byte(int64Bytes(100)))
		ok(t, table.Apply(ctx, "r", m))
	}
	same(t, values(t, table, "r"), []string{
		"max:q @1000 = " + text(int64Bytes(10)),
		"min:q @1000 = " + text(int64Bytes(-3)),
		"sum:q @1000 = " + text(int64Bytes(112)),
	})
}

// noise is bytes that do not compress, the same ones for the same seed.
func noise(seed int64, size int) []byte {
	out := make([]byte, size)
	rand.New(rand.NewSource(seed)).Read(out)
	return out
}

// A row of 30 MiB: larger than any message, each value larger than a chunk.
func TestLargeRow(t *testing.T) {
	lasting(t)
	const name, size = "large", 10 << 20
	table := client.Open(name)
	if phase == "first" {
		create(t, &bigtable.TableConf{TableID: name, ColumnFamilies: plain("f")})
		for n := range int64(3) {
			m := bigtable.NewMutation()
			m.Set("f", fmt.Sprint("v", n), 1000, noise(n, size))
			ok(t, table.Apply(ctx, "wide", m))
		}
		ok(t, table.Apply(ctx, "z", set("f", "q", 1000, "end")))
	}
	seen := 0
	ok(t, table.ReadRows(ctx, bigtable.InfiniteRange(""), func(row bigtable.Row) bool {
		seen++
		if row.Key() == "wide" {
			for n := range int64(3) {
				if !bytes.Equal(row["f"][n].Value, noise(n, size)) {
					t.Errorf("value %d is damaged", n)
				}
			}
		}
		return true
	}))
	if seen != 2 {
		t.Errorf("%d rows", seen)
	}
}

func TestManyRows(t *testing.T) {
	lasting(t)
	const name, count = "many", 10_000
	table := client.Open(name)
	if phase == "first" {
		create(t, &bigtable.TableConf{TableID: name, ColumnFamilies: plain("f"), SplitKeys: []string{"k03000", "k07000"}})
		for start := 0; start < count; start += 1000 {
			var rows []string
			var mutations []*bigtable.Mutation
			for n := start; n < start+1000; n++ {
				rows = append(rows, fmt.Sprintf("k%05d", n))
				mutations = append(mutations, set("f", "q", 1000, fmt.Sprint(n)))
			}
			errs, err := table.ApplyBulk(ctx, rows, mutations)
			ok(t, err)
			if errs != nil {
				t.Fatal(errs[0])
			}
		}
	}
	all := keys(t, table, bigtable.InfiniteRange(""))
	if len(all) != count || all[0] != "k00000" || all[count-1] != "k09999" {
		t.Fatalf("%d rows", len(all))
	}
	back := keys(t, table, bigtable.PrefixRange("k0"), bigtable.ReverseScan(), bigtable.LimitRows(4000))
	if len(back) != 4000 || back[0] != "k09999" || back[3999] != "k06000" {
		t.Fatalf("%d rows, %s to %s", len(back), back[0], back[len(back)-1])
	}
	var stats *bigtable.FullReadStats
	keys(t, table, bigtable.PrefixRange("k012"), bigtable.RowFilter(bigtable.ValueFilter("12.[05]")),
		bigtable.WithFullReadStats(func(s *bigtable.FullReadStats) { stats = s }))
	if stats == nil || stats.ReadIterationStats.RowsReturnedCount != 20 || stats.ReadIterationStats.RowsSeenCount != 100 {
		t.Errorf("%+v", stats)
	}
	stopped := 0
	ok(t, table.ReadRows(ctx, bigtable.InfiniteRange(""), func(bigtable.Row) bool {
		stopped++
		return stopped < 5
	}))
	if stopped != 5 {
		t.Errorf("%d rows after the reader stopped at 5", stopped)
	}
}

func TestRowSample(t *testing.T) {
	firstOnly(t)
	table, _ := newTable(t, "f")
	for n := range 200 {
		ok(t, table.Apply(ctx, fmt.Sprint(n), set("f", "q", 1000, "v")))
	}
	got := len(keys(t, table, bigtable.InfiniteRange(""), bigtable.RowFilter(bigtable.RowSampleFilter(0.5))))
	if got < 60 || got > 140 {
		t.Errorf("%d of 200 rows at 0.5", got)
	}
}

func TestServerTime(t *testing.T) {
	firstOnly(t)
	table, _ := newTable(t, "f")
	before := time.Now().UnixMicro() - 1000
	ok(t, table.Apply(ctx, "r", set("f", "q", int64(bigtable.ServerTime), "v")))
	row, err := table.ReadRow(ctx, "r")
	ok(t, err)
	got := int64(row["f"][0].Timestamp)
	if got < before || got > time.Now().UnixMicro() || got%1000 != 0 {
		t.Errorf("%d, written after %d", got, before)
	}
}

func TestRefusals(t *testing.T) {
	firstOnly(t)
	table, _ := newTable(t, "f")
	apply := func(key string, m *bigtable.Mutation) error { return table.Apply(ctx, key, m) }
	filtered := func(f bigtable.Filter) error {
		_, err := table.ReadRow(ctx, "r", bigtable.RowFilter(f))
		return err
	}
	refused(t, client.Open("missing").Apply(ctx, "r", set("f", "q", 0, "v")), codes.NotFound, "tables/missing")
	refused(t, apply("r", set("nothing", "q", 0, "v")), codes.NotFound, "nothing")
	refused(t, apply("", set("f", "q", 0, "v")), codes.InvalidArgument, "row_key", "empty")
	refused(t, apply(strings.Repeat("k", 4097), set("f", "q", 0, "v")), codes.InvalidArgument, "row_key", "4096")
	refused(t, apply("r", set("f", strings.Repeat("q", 16385), 0, "v")), codes.InvalidArgument, "16384")
	refused(t, filtered(bigtable.ValueFilter("a(")), codes.InvalidArgument, "regex")
	refused(t, filtered(bigtable.RowSampleFilter(2)), codes.InvalidArgument, "row_sample")
	refused(t, filtered(bigtable.CellsPerRowLimitFilter(0)), codes.InvalidArgument, "cells_per_row_limit")
	refused(t, filtered(bigtable.ColumnRangeFilter("f", "b", "a")), codes.InvalidArgument)
	err := table.ReadRows(ctx, bigtable.NewRange("b", "a"), func(bigtable.Row) bool { return true })
	if err != nil && status.Code(err) != codes.InvalidArgument {
		t.Errorf("inverted range: %v", err)
	}
	m := bigtable.NewReadModifyWrite()
	m.Increment("nothing", "q", 1)
	_, err = table.ApplyReadModifyWrite(ctx, "r", m)
	refused(t, err, codes.NotFound, "nothing")
}
