package clients

import (
	"encoding/json"
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"

	"cloud.google.com/go/bigtable"
)

// The rows and reads of ../scenario.json, which every client library makes alike.
type scenario struct {
	Families []string
	Splits   []string
	Rows     map[string][][4]any
	Reads    []read
}

type read struct {
	Name     string
	Keys     []string
	Ranges   []map[string]string
	Prefix   *string
	Filter   map[string]json.RawMessage
	Limit    int64
	Reversed bool
	Only     string
	Want     []string
}

func load(t *testing.T) scenario {
	t.Helper()
	text, err := os.ReadFile("../scenario.json")
	ok(t, err)
	var s scenario
	ok(t, json.Unmarshal(text, &s))
	return s
}

// raw turns text of the scenario into the bytes it stands for, one a character.
func raw(text string) string {
	var out []byte
	for _, c := range text {
		out = append(out, byte(c))
	}
	return string(out)
}

// text is the inverse of raw.
func text(raw string) string {
	var out []rune
	for i := range len(raw) {
		out = append(out, rune(raw[i]))
	}
	return string(out)
}

func fill(t *testing.T, s scenario, name string) {
	t.Helper()
	create(t, &bigtable.TableConf{TableID: name, ColumnFamilies: plain(s.Families...), SplitKeys: s.Splits})
	var rows []string
	var mutations []*bigtable.Mutation
	for key, cells := range s.Rows {
		m := bigtable.NewMutation()
		for _, c := range cells {
			micros := bigtable.Timestamp(int64(c[2].(float64)))
			m.Set(c[0].(string), raw(c[1].(string)), micros, []byte(raw(c[3].(string))))
		}
		rows, mutations = append(rows, raw(key)), append(mutations, m)
	}
	errs, err := client.Open(name).ApplyBulk(ctx, rows, mutations)
	ok(t, err)
	if errs != nil {
		t.Fatal(errs)
	}
}

func TestScenario(t *testing.T) {
	s, name, from := load(t), "scenario", client
	switch phase {
	case "first":
		fill(t, s, name)
	case "other":
		parts := strings.Split(os.Getenv("CLIENTS_TABLE"), "/")
		_, from = open(parts[0])
		name = parts[1]
	}
	table := from.Open(name)
	for _, r := range s.Reads {
		if r.Only != "" && r.Only != "go" {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			var got []string
			var options []bigtable.ReadOption
			if r.Filter != nil {
				options = append(options, bigtable.RowFilter(filter(r.Filter)))
			}
			if r.Limit != 0 {
				options = append(options, bigtable.LimitRows(r.Limit))
			}
			if r.Reversed {
				options = append(options, bigtable.ReverseScan())
			}
			for _, rows := range rowSets(r) {
				ok(t, table.ReadRows(ctx, rows, func(row bigtable.Row) bool {
					got = append(got, lines(row)...)
					return true
				}, options...))
			}
			same(t, got, r.Want)
		})
	}
}

// rowSets is the row set of a read. The client's sets hold keys or ranges, not both; keys in a
// mixed set become ranges of one key.
func rowSets(r read) []bigtable.RowSet {
	if r.Prefix != nil {
		return []bigtable.RowSet{bigtable.PrefixRange(raw(*r.Prefix))}
	}
	if len(r.Ranges) == 0 && len(r.Keys) > 0 {
		list := bigtable.RowList{}
		for _, key := range r.Keys {
			list = append(list, raw(key))
		}
		return []bigtable.RowSet{list}
	}
	if len(r.Ranges) == 0 {
		return []bigtable.RowSet{bigtable.InfiniteRange("")}
	}
	var list bigtable.RowRangeList
	for _, key := range r.Keys {
		list = append(list, bigtable.NewClosedRange(raw(key), raw(key)))
	}
	for _, bounds := range r.Ranges {
		list = append(list, rowRange(bounds))
	}
	return []bigtable.RowSet{list}
}

func rowRange(bounds map[string]string) bigtable.RowRange {
	from, closed := bounds["from"]
	after := raw(bounds["after"])
	to, closedEnd := bounds["to"]
	below, openEnd := bounds["below"]
	from, to, below = raw(from), raw(to), raw(below)
	switch {
	case closed && closedEnd:
		return bigtable.NewClosedRange(from, to)
	case closed && openEnd:
		return bigtable.NewClosedOpenRange(from, below)
	case closed:
		return bigtable.InfiniteRange(from)
	case after == "" && openEnd:
		return bigtable.NewRange("", below)
	case closedEnd:
		return bigtable.NewOpenClosedRange(after, to)
	default:
		return bigtable.NewOpenRange(after, below)
	}
}

// lines are the cells of a row, one a line. The client keeps a map of families, so that their
// order is lost; the scenario's order is that of their names.
func lines(row bigtable.Row) []string {
	var families, out []string
	for family := range row {
		families = append(families, family)
	}
	sort.Strings(families)
	for _, family := range families {
		for _, item := range row[family] {
			label := ""
			for _, name := range item.Labels {
				label += " {" + name + "}"
			}
			out = append(out, fmt.Sprintf("%s %s @%d = %s%s",
				text(row.Key()), text(item.Column), item.Timestamp, text(string(item.Value)), label))
		}
	}
	return out
}

func filter(tree map[string]json.RawMessage) bigtable.Filter {
	if predicate, is := tree["if"]; is {
		return bigtable.ConditionFilter(sub(predicate), sub(tree["then"]), sub(tree["else"]))
	}
	for kind, value := range tree {
		return simple(kind, value)
	}
	panic("a filter without a kind")
}

// sub is the filter of a branch, nil for an absent one.
func sub(value json.RawMessage) bigtable.Filter {
	if value == nil {
		return nil
	}
	return filter(decode[map[string]json.RawMessage](value))
}

func subs(value json.RawMessage) []bigtable.Filter {
	var out []bigtable.Filter
	for _, each := range decode[[]json.RawMessage](value) {
		out = append(out, sub(each))
	}
	return out
}

func decode[T any](value json.RawMessage) T {
	var out T
	if err := json.Unmarshal(value, &out); err != nil {
		panic(err)
	}
	return out
}

func simple(kind string, value json.RawMessage) bigtable.Filter {
	word := func() string { return raw(decode[string](value)) }
	number := func() int { return decode[int](value) }
	bounds := func() map[string]string { return decode[map[string]string](value) }
	switch kind {
	case "chain":
		return bigtable.ChainFilters(subs(value)...)
	case "interleave":
		return bigtable.InterleaveFilters(subs(value)...)
	case "pass":
		return bigtable.PassAllFilter()
	case "block":
		return bigtable.BlockAllFilter()
	case "strip":
		return bigtable.StripValueFilter()
	case "label":
		return bigtable.LabelFilter(word())
	case "row_key":
		return bigtable.RowKeyFilter(word())
	case "family":
		return bigtable.FamilyFilter(word())
	case "qualifier":
		return bigtable.ColumnFilter(word())
	case "value":
		return bigtable.ValueFilter(word())
	case "columns":
		b := bounds()
		return bigtable.ColumnRangeFilter(b["family"], raw(b["from"]), raw(b["below"]))
	case "values":
		b := bounds()
		var from, below []byte // nil: no bound
		if _, is := b["from"]; is {
			from = []byte(raw(b["from"]))
		}
		if _, is := b["below"]; is {
			below = []byte(raw(b["below"]))
		}
		return bigtable.ValueRangeFilter(from, below)
	case "times":
		micros := decode[[2]int64](value)
		return bigtable.TimestampRangeFilterMicros(bigtable.Timestamp(micros[0]), bigtable.Timestamp(micros[1]))
	case "per_column":
		return bigtable.LatestNFilter(number())
	case "per_row":
		return bigtable.CellsPerRowLimitFilter(number())
	case "skip":
		return bigtable.CellsPerRowOffsetFilter(number())
	}
	panic("no such filter: " + kind)
}
