package clients

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"reflect"
	"testing"
	"time"

	"cloud.google.com/go/bigtable"
	"google.golang.org/grpc/codes"
)

// rows gives all rows of a query, which is prepared first.
func rows(t *testing.T, query string, types map[string]bigtable.SQLType, values map[string]any) []bigtable.ResultRow {
	t.Helper()
	rows, err := tryRows(query, types, values)
	if err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return rows
}

func tryRows(query string, types map[string]bigtable.SQLType, values map[string]any) ([]bigtable.ResultRow, error) {
	prepared, err := client.PrepareStatement(ctx, query, types)
	if err != nil {
		return nil, err
	}
	return execute(prepared, values)
}

func execute(prepared *bigtable.PreparedStatement, values map[string]any) ([]bigtable.ResultRow, error) {
	bound, err := prepared.Bind(values)
	if err != nil {
		return nil, err
	}
	var rows []bigtable.ResultRow
	err = bound.Execute(ctx, func(row bigtable.ResultRow) bool {
		rows = append(rows, row)
		return true
	})
	return rows, err
}

func column[T any](t *testing.T, row bigtable.ResultRow, name string) T {
	t.Helper()
	var value T
	ok(t, row.GetByName(name, &value))
	return value
}

func queried(t *testing.T) string {
	t.Helper()
	table, name := newTable(t, "address", "count")
	for row, state := range map[string]string{"row-01": "CA", "row-02": "AZ"} {
		cells := set("address", "state", 1000, "WA")
		cells.Set("address", "state", 2000, []byte(state))
		cells.Set("address", "city", 1000, []byte("city of "+row))
		cells.Set("count", "n", 1000, binary.BigEndian.AppendUint64(nil, 7))
		ok(t, table.Apply(ctx, row, cells))
	}
	return name
}

func TestQueryAllColumns(t *testing.T) {
	firstOnly(t)
	table := queried(t)
	got := rows(t, fmt.Sprintf("SELECT * FROM `%s` ORDER BY _key LIMIT 5", table), nil, nil)
	if len(got) != 2 || string(column[[]byte](t, got[1], "_key")) != "row-02" {
		t.Fatalf("%d rows", len(got))
	}
	name := func(qualifier string) string { return base64.StdEncoding.EncodeToString([]byte(qualifier)) }
	want := map[string][]byte{name("state"): []byte("CA"), name("city"): []byte("city of row-01")}
	if address := column[map[string][]byte](t, got[0], "address"); !reflect.DeepEqual(address, want) {
		t.Errorf("got %v, want %v", address, want)
	}
}

func TestQueryRowByKey(t *testing.T) {
	firstOnly(t)
	table := queried(t)
	query := "SELECT CAST(_key AS STRING) AS key, address['state'] AS state, TO_INT64(count['n']) AS n " +
		"FROM `" + table + "` WHERE _key = @key"
	types := map[string]bigtable.SQLType{"key": bigtable.BytesSQLType{}}
	prepared, err := client.PrepareStatement(ctx, query, types)
	ok(t, err)
	for key, want := range map[string]int{"row-01": 1, "row-02": 1, "none": 0} {
		got, err := execute(prepared, map[string]any{"key": []byte(key)})
		ok(t, err)
		if len(got) != want {
			t.Fatalf("%s: %d rows", key, len(got))
		}
		if want == 1 && (column[string](t, got[0], "key") != key || column[int64](t, got[0], "n") != 7) {
			t.Errorf("%s: %+v", key, got[0])
		}
	}
}

// The client's own examples of types, in its integration tests.
func TestQueryAllTypes(t *testing.T) {
	firstOnly(t)
	table := queried(t)
	row := rows(t, "SELECT 'stringVal' AS strCol, b'foo' as bytesCol, 1 AS intCol, CAST(1.2 AS FLOAT32) as f32Col, "+
		"CAST(1.3 AS FLOAT64) as f64Col, true as boolCol, TIMESTAMP_FROM_UNIX_MILLIS(1000) AS tsCol, "+
		"DATE(2024, 06, 01) as dateCol, STRUCT(1 as a, \"foo\" as b) AS structCol, [1,2,3] AS arrCol "+
		"FROM `"+table+"` WHERE _key='row-01' LIMIT 1", nil, nil)[0]
	if column[string](t, row, "strCol") != "stringVal" || !bytes.Equal(column[[]byte](t, row, "bytesCol"), []byte("foo")) ||
		column[int64](t, row, "intCol") != 1 || column[float32](t, row, "f32Col") != 1.2 ||
		column[float64](t, row, "f64Col") != 1.3 || !column[bool](t, row, "boolCol") ||
		!column[time.Time](t, row, "tsCol").Equal(time.Unix(1, 0)) ||
		!reflect.DeepEqual(column[[]int64](t, row, "arrCol"), []int64{1, 2, 3}) {
		t.Errorf("%+v", row)
	}
	structure := column[bigtable.Struct](t, row, "structCol")
	var b string
	ok(t, structure.GetByName("b", &b))
	if b != "foo" {
		t.Errorf("%q in a struct", b)
	}
	now := time.Now().UTC()
	row = rows(t, "SELECT @b AS b, @s AS s, @f AS f, @ts AS ts, @keys AS keys",
		map[string]bigtable.SQLType{
			"b": bigtable.BytesSQLType{}, "s": bigtable.StringSQLType{}, "f": bigtable.Float32SQLType{},
			"ts": bigtable.TimestampSQLType{}, "keys": bigtable.ArraySQLType{ElemType: bigtable.BytesSQLType{}},
		},
		map[string]any{
			"b": []byte{0xff}, "s": "text", "f": float32(1.3), "ts": now, "keys": [][]byte{[]byte("foo"), nil},
		})[0]
	if column[string](t, row, "s") != "text" || column[float32](t, row, "f") != 1.3 ||
		!column[time.Time](t, row, "ts").Equal(now) ||
		!reflect.DeepEqual(column[[][]byte](t, row, "keys"), [][]byte{[]byte("foo"), nil}) {
		t.Errorf("%+v", row)
	}
}

func TestQueryOfManyRows(t *testing.T) {
	firstOnly(t)
	table, name := newTable(t, "f")
	var names []string
	var cells []*bigtable.Mutation
	for n := range 3000 {
		names = append(names, fmt.Sprintf("%05d", n))
		cells = append(cells, set("f", "q", 1000, string(make([]byte, 1000))))
	}
	_, err := table.ApplyBulk(ctx, names, cells)
	ok(t, err)
	got := rows(t, "SELECT _key, f['q'] AS v FROM `"+name+"`", nil, nil)
	if len(got) != len(names) {
		t.Fatalf("%d rows", len(got))
	}
	for n, row := range got {
		if string(column[[]byte](t, row, "_key")) != names[n] || len(column[[]byte](t, row, "v")) != 1000 {
			t.Fatalf("row %d: %+v", n, row)
		}
	}
}

// The client prepares a statement again when the schema has changed its columns.
func TestQueryIsPreparedAgain(t *testing.T) {
	firstOnly(t)
	table := queried(t)
	prepared, err := client.PrepareStatement(ctx, "SELECT * FROM `"+table+"`", nil)
	ok(t, err)
	before, err := execute(prepared, nil)
	ok(t, err)
	ok(t, admin.CreateColumnFamily(ctx, table, "later"))
	after, err := execute(prepared, nil)
	ok(t, err)
	if len(before[0].Metadata.Columns) != 3 || len(after[0].Metadata.Columns) != 4 {
		t.Errorf("%+v, then %+v", before[0].Metadata, after[0].Metadata)
	}
}

func TestQueryRefusals(t *testing.T) {
	firstOnly(t)
	table := queried(t)
	for query, code := range map[string]codes.Code{
		"SELECT COUNT(*) FROM `" + table + "`":                   codes.Unimplemented,
		"SELECT * FROM `" + table + "`(WITH_HISTORY=>TRUE)":      codes.Unimplemented,
		"SELECT none FROM `" + table + "`":                       codes.InvalidArgument,
		"SELECT * FROM none":                                     codes.NotFound,
		"SELECT CAST(count['n'] AS STRING) FROM `" + table + "`": codes.OK,
		"SELECT CAST(b'\\xff' AS STRING) AS s":                   codes.OutOfRange,
	} {
		if _, err := tryRows(query, nil, nil); code != codes.OK || err != nil {
			refused(t, err, code)
		}
	}
}
