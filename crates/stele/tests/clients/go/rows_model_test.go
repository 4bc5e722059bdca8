package clients

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"cloud.google.com/go/bigtable/apiv2/bigtablepb"
	"github.com/anishathalye/porcupine"
)

// A row of the histories has one column, whose versions are all kept. Every write asks for the
// server's time, so a row is a pile: the state is its values, newest first, with spaces between.
// A version that lies under one that was there before it, or took another's place, is seen.

const tableName = "projects/" + project + "/instances/" + instance + "/tables/histories"

// otherwise is what a check-and-mutate whose predicate does not hold adds to its value.
const otherwise = "no"

type kind int

const (
	opRead kind = iota
	opWrite
	opClear
	opReplace
	opCheck
	opAppend
)

// request is an operation on one row.
type request struct {
	kind     kind
	value    string
	expected string
}

// answer is what the client was told; nothing if it is not known.
type answer struct {
	known   bool
	matched bool
	values  string
}

// setAtServerTime is a write of the one cell at -1.
func setAtServerTime(value string) []*bigtablepb.Mutation {
	return []*bigtablepb.Mutation{{Mutation: &bigtablepb.Mutation_SetCell_{SetCell: &bigtablepb.Mutation_SetCell{
		FamilyName: "f", ColumnQualifier: []byte("q"), TimestampMicros: -1, Value: []byte(value),
	}}}}
}

// mutations are those of a write, clear or replace.
func (r request) mutations() []*bigtablepb.Mutation {
	drop := &bigtablepb.Mutation{Mutation: &bigtablepb.Mutation_DeleteFromRow_{
		DeleteFromRow: &bigtablepb.Mutation_DeleteFromRow{},
	}}
	switch r.kind {
	case opClear:
		return []*bigtablepb.Mutation{drop}
	case opReplace:
		return append([]*bigtablepb.Mutation{drop}, setAtServerTime(r.value)...)
	default:
		return setAtServerTime(r.value)
	}
}

// predicate holds if the newest value is the expected one.
func (r request) predicate() *bigtablepb.RowFilter {
	newest := &bigtablepb.RowFilter{Filter: &bigtablepb.RowFilter_CellsPerColumnLimitFilter{CellsPerColumnLimitFilter: 1}}
	equal := &bigtablepb.RowFilter{Filter: &bigtablepb.RowFilter_ValueRegexFilter{ValueRegexFilter: []byte(r.expected)}}
	return &bigtablepb.RowFilter{Filter: &bigtablepb.RowFilter_Chain_{
		Chain: &bigtablepb.RowFilter_Chain{Filters: []*bigtablepb.RowFilter{newest, equal}},
	}}
}

func push(pile, value string) string {
	return strings.TrimSuffix(value+" "+pile, " ")
}

// under tells which value lies under each in the piles that were read. A pile changes at its top and
// vanishes as a whole, so that is what the value was put on. It follows from the reads; known
// beforehand, it spares the search most orders that a later read would refute.
func under(history []porcupine.Operation) map[string]string {
	below := map[string]string{}
	for _, operation := range history {
		if operation.Input.(request).kind != opRead {
			continue
		}
		values := strings.Split(operation.Output.(answer).values, " ")
		for at, value := range values {
			if at+1 < len(values) {
				below[value] = values[at+1]
			} else {
				below[value] = ""
			}
		}
	}
	return below
}

// stepOf gives the states that a row may be in after such an answer in a state; none if there is no
// such answer. What was told nothing took effect or did not. What is appended takes the place of the
// newest version in the same millisecond.
func stepOf(below map[string]string) func(state, input, output any) []any {
	return func(state, input, output any) []any {
		pile, asked, told := state.(string), input.(request), output.(answer)
		newest, older, _ := strings.Cut(pile, " ")
		var states []any
		put := func(fits bool, value, on string) {
			top, _, _ := strings.Cut(on, " ")
			lies, seen := below[value]
			if (fits || !told.known) && (!seen || lies == top) {
				states = append(states, push(on, value))
			}
		}
		switch asked.kind {
		case opRead:
			if told.values == pile {
				states = append(states, pile)
			}
		case opWrite:
			put(true, asked.value, pile)
		case opClear:
			states = append(states, "")
		case opReplace:
			put(true, asked.value, "")
		case opCheck:
			matched := pile != "" && newest == asked.expected
			value := asked.value
			if !matched {
				value += otherwise
			}
			put(told.matched == matched, value, pile)
		case opAppend:
			value := newest + asked.value
			put(told.values == value, value, pile)
			put(told.values == value, value, older)
		}
		if !told.known {
			states = append(states, pile)
		}
		return states
	}
}

func isLinearizable(history []porcupine.Operation) bool {
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{""} },
		Step: stepOf(under(history)),
	}
	// A history that cannot be told in time is no proof: it counts as refused.
	return porcupine.CheckOperationsTimeout(model.ToModel(), history, time.Minute) == porcupine.Ok
}

func describe(history []porcupine.Operation) string {
	sorted := append([]porcupine.Operation{}, history...)
	sort.Slice(sorted, func(a, b int) bool { return sorted[a].Call < sorted[b].Call })
	var out strings.Builder
	names := []string{"read", "write", "clear", "replace", "check", "append"}
	for _, o := range sorted {
		asked, told := o.Input.(request), o.Output.(answer)
		fmt.Fprintf(&out, "  %d..%d client %d: %s %s %s -> %+v\n",
			o.Call, o.Return, o.ClientId, names[asked.kind], asked.value, asked.expected, told)
	}
	return out.String()
}
