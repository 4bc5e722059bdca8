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
// server's time, so a row is a pile: the state is its values, newest first, with spaces between, and
// the latest time that is known to have been given. A version that lies under one that was there before
// it, or took another's place, is seen.
//
// What is appended takes the place of the newest version if it has its time, and lies on it if it has a
// later one. The times are those that clients saw: answers of appends and reads tell them. Where nobody
// ever saw the newest version, both may have been.
//
// Values that nobody ever saw are all alike, and so is what lies under one: no read shows it before it
// is gone. Otherwise the orders of writes that overlap, and that a clear makes equal, would be tried
// one by one.

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

// unseen stands for a pile at whose top lies a value that nobody saw.
const unseen = "?"

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
	// What was read, newest first, or the one cell that an append made.
	cells []cell
}

// cell is a version, with its time in microseconds.
type cell struct {
	value string
	time  int64
}

func (a answer) values() string {
	var values []string
	for _, cell := range a.cells {
		values = append(values, cell.value)
	}
	return strings.Join(values, " ")
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

// pile is the state of a row.
type pile struct {
	values string
	// The latest time known of those that the row was given, also of versions that are gone.
	latest int64
}

// sights are what clients saw of versions, whenever they did.
type sights struct {
	// Which value lies under each in the piles that were read. A pile changes at its top and vanishes as
	// a whole, so that is what the value was put on. It follows from the reads; known beforehand, it
	// spares the search most orders that a later read would refute.
	below map[string]string
	times map[string]int64
	// Values on which an answer depends: those that were seen, what they were appended to, and those
	// that checks expected.
	values map[string]bool
	// A version was seen with two times, or not below the one that lies on it.
	torn bool
}

func look(history []porcupine.Operation) sights {
	seen := sights{below: map[string]string{}, times: map[string]int64{}, values: map[string]bool{}}
	for _, operation := range history {
		asked := operation.Input.(request)
		seen.values[asked.expected] = true
		cells := operation.Output.(answer).cells
		for at, cell := range cells {
			if time, known := seen.times[cell.value]; known && time != cell.time {
				seen.torn = true
			}
			seen.times[cell.value] = cell.time
			for end, char := range cell.value + "_" {
				if char == '_' {
					seen.values[cell.value[:end]] = true
				}
			}
			below := ""
			if at+1 < len(cells) {
				below = cells[at+1].value
				seen.torn = seen.torn || cells[at+1].time >= cell.time
			}
			if asked.kind == opRead {
				seen.below[cell.value] = below
			}
		}
	}
	return seen
}

// put gives the state in which value lies on values, if it may: its time must fit.
func (seen sights) put(state pile, value, on string, fits func(time int64) bool) []any {
	top, _, _ := strings.Cut(on, " ")
	if lies, known := seen.below[value]; known && lies != top {
		return nil
	}
	latest := state.latest
	if time, known := seen.times[value]; known {
		if !fits(time) {
			return nil
		}
		latest = time
	}
	if !seen.values[value] {
		return []any{pile{unseen, latest}}
	}
	return []any{pile{push(on, value), latest}}
}

// putNew is put for a write: its time is above all before.
func (seen sights) putNew(state pile, value, on string) []any {
	return seen.put(state, value, on, func(time int64) bool { return time > state.latest })
}

// putAppended is put for what was made of the newest version.
func (seen sights) putAppended(state pile, value string) []any {
	if state.values == "" {
		return seen.put(state, value, "", func(time int64) bool { return time >= state.latest })
	}
	newest, older, _ := strings.Cut(state.values, " ")
	replaced := func(time int64) bool {
		of, known := seen.times[newest]
		return known && time == of || !known && time > state.latest
	}
	return append(seen.putNew(state, value, state.values), seen.put(state, value, older, replaced)...)
}

// step gives the states that a row may be in after such an answer in a state; none if there is no
// such answer. What was told nothing took effect or did not.
func (seen sights) step(before, input, output any) []any {
	state, asked, told := before.(pile), input.(request), output.(answer)
	newest, _, _ := strings.Cut(state.values, " ")
	var states []any
	if !told.known {
		states = append(states, state)
	}
	switch asked.kind {
	case opRead:
		if told.values() == state.values {
			states = append(states, state)
		}
	case opWrite:
		states = append(states, seen.putNew(state, asked.value, state.values)...)
	case opClear:
		states = append(states, pile{"", state.latest})
	case opReplace:
		states = append(states, seen.putNew(state, asked.value, "")...)
	case opCheck:
		matched := state.values != "" && newest == asked.expected
		value := asked.value
		if !matched {
			value += otherwise
		}
		if !told.known || told.matched == matched {
			states = append(states, seen.putNew(state, value, state.values)...)
		}
	case opAppend:
		if value := newest + asked.value; !told.known || told.values() == value {
			states = append(states, seen.putAppended(state, value)...)
		}
	}
	return states
}

// judge says whether a row can have such a history; nothing if that takes too long to tell.
func judge(history []porcupine.Operation) porcupine.CheckResult {
	seen := look(history)
	if seen.torn {
		return porcupine.Illegal
	}
	model := porcupine.NondeterministicModel{
		Init: func() []any { return []any{pile{"", -1}} },
		Step: seen.step,
	}
	return porcupine.CheckOperationsTimeout(model.ToModel(), history, 5*time.Minute)
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
