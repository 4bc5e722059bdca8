package clients

import (
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/anishathalye/porcupine"
)

// Each fault, and what a row that has it does. Now and then is one time of three.
var plantedFaults = []string{
	"none",
	// Writes: it keeps the time at which it was called; it gets the latest time; it is not made.
	"old time", "same time", "lost",
	// A read shows what was before the last change.
	"stale read",
	// Read-modify-writes: it is made of what was before the last change; it is not made; it takes the
	// place of a version that has another time.
	"append of old", "append lost", "append over",
	// Check-and-mutates: it looks at what was before the last change; it tells the other outcome; it
	// makes nothing.
	"check of old", "check mistold", "check lost",
	// Deletes: it is not made; it leaves the newest version, or the oldest; what it deleted comes back
	// with the next write.
	"clear lost", "clear spares newest", "clear spares oldest", "clear undone",
	// A delete and a write in one: only one of the two is made.
	"replace adds", "replace clears",
	// Changes whose outcome nobody was told: made after it was certain that they were not; made twice;
	// made by half.
	"doubt late", "doubt twice", "doubt half",
}

// TestTheCheckerSeesWhatIsPlanted makes histories of a row that has a fault, step by step and without
// a server: what is right must pass the check of the histories, and what is wrong must not.
func TestTheCheckerSeesWhatIsPlanted(t *testing.T) {
	const histories = 40
	for _, fault := range plantedFaults {
		refused := 0
		for seed := range int64(histories) {
			if judge(plant(seed, fault)) != porcupine.Ok {
				refused++
			}
		}
		if fault == "none" && refused > 0 {
			t.Errorf("%d of %d good histories were refused", refused, histories)
		}
		if fault != "none" && refused < histories/2 {
			t.Errorf("fault %q: %d of %d histories were refused", fault, refused, histories)
		}
	}
}

// planted is a row with a fault.
type planted struct {
	fault string
	rng   *rand.Rand
	// Its versions, newest first, now, before the last change, and before the last delete.
	cells, before, deleted []cell
	// The latest time that it was given.
	latest  int64
	last    string
	waiting []waiting
	history []porcupine.Operation
}

// waiting is a request that takes effect when it is due.
type waiting struct {
	asked       request
	called, due int
	// Nobody is told the outcome.
	doubt bool
}

func plant(seed int64, fault string) []porcupine.Operation {
	row := planted{fault: fault, rng: rand.New(rand.NewSource(seed)), latest: -1}
	for now := 1; now <= 120; now++ {
		if row.rng.Intn(2) == 0 {
			row.waiting = append(row.waiting, waiting{
				row.ask(now), now, now + row.rng.Intn(8), row.rng.Intn(3) == 0,
			})
		}
		row.commit(now)
		row.read(now)
	}
	return row.history
}

func (row *planted) nowAndThen() bool { return row.rng.Intn(3) == 0 }

func (row *planted) ask(now int) request {
	value := fmt.Sprintf("n%d", now)
	switch draw := row.rng.Intn(100); {
	case draw < 30:
		return request{kind: opWrite, value: value}
	case draw < 45:
		return request{kind: opClear}
	case draw < 60:
		return request{kind: opReplace, value: value}
	case draw < 80:
		return request{kind: opCheck, value: value, expected: row.last}
	default:
		return request{kind: opAppend, value: "_" + value}
	}
}

// commit lets what is due take effect.
func (row *planted) commit(now int) {
	var later []waiting
	for at, w := range row.waiting {
		if w.due > now {
			later = append(later, w)
			continue
		}
		end := 100*now + 1 + at
		if w.doubt && w.called >= 0 {
			row.note(w.asked, answer{}, 100*w.called, end)
			if row.fault == "doubt late" {
				later = append(later, waiting{w.asked, -1, now + 1 + row.rng.Intn(4), true})
				continue
			}
			if row.nowAndThen() {
				continue
			}
		}
		told := row.change(w, now)
		if w.doubt && row.fault == "doubt twice" {
			row.change(w, now)
		}
		if !w.doubt {
			row.note(w.asked, told, 100*w.called, end)
		}
	}
	row.waiting = later
}

// change makes a change, and gives what is told.
func (row *planted) change(w waiting, now int) answer {
	shown, before := row.cells, row.before
	row.before = row.cells
	told := answer{known: true}
	faulty := func(fault string) bool { return row.fault == fault && row.nowAndThen() }
	switch w.asked.kind {
	case opWrite:
		if !faulty("lost") {
			row.write(w, now, w.asked.value)
		}
		if faulty("clear undone") {
			row.cells, row.deleted = append(slices.Clone(row.cells), row.deleted...), nil
		}
	case opClear:
		row.clear(faulty)
	case opReplace:
		half := row.fault == "doubt half" && w.doubt
		if !faulty("replace adds") {
			row.cells = nil
		}
		if !half && !faulty("replace clears") {
			row.write(w, now, w.asked.value)
		}
	case opCheck:
		if faulty("check of old") {
			shown = before
		}
		told.matched = len(shown) > 0 && shown[0].value == w.asked.expected
		value := w.asked.value
		if !told.matched {
			value += otherwise
		}
		if !faulty("check lost") {
			row.write(w, now, value)
		}
		told.matched = told.matched != faulty("check mistold")
	case opAppend:
		if faulty("append of old") {
			shown = before
		}
		told.cells = []cell{row.modify(w, now, shown, faulty)}
	}
	return told
}

// clear deletes the row.
func (row *planted) clear(faulty func(string) bool) {
	cells := row.cells
	row.deleted = cells
	switch {
	case faulty("clear lost"):
	case faulty("clear spares newest"):
		row.cells = cells[:min(1, len(cells))]
	case faulty("clear spares oldest"):
		row.cells = cells[max(1, len(cells))-1:]
	default:
		row.cells = nil
	}
}

// clock shows a time that stands still for some steps.
func clock(now int) int64 { return 20 * int64(now/4) }

// write makes a version, over one of the same time.
func (row *planted) write(w waiting, now int, value string) {
	time := max(clock(now), row.latest+1)
	switch row.fault {
	case "old time":
		time = clock(max(w.called, 0))
	case "same time":
		time = max(clock(now), row.latest)
	}
	row.put(cell{value, time})
}

// modify appends to what is shown as the newest version.
func (row *planted) modify(w waiting, now int, shown []cell, faulty func(string) bool) cell {
	made := cell{w.asked.value, max(clock(now), row.latest)}
	if len(shown) > 0 {
		made.value = shown[0].value + made.value
	}
	switch {
	case faulty("append lost"):
		return made
	case row.fault == "append over" && len(row.cells) > 0:
		row.cells = row.cells[1:]
	}
	row.put(made)
	return made
}

func (row *planted) put(made cell) {
	row.latest = max(row.latest, made.time)
	cells := slices.DeleteFunc(slices.Clone(row.cells), func(c cell) bool { return c.time == made.time })
	at := slices.IndexFunc(cells, func(c cell) bool { return c.time < made.time })
	if at < 0 {
		at = len(cells)
	}
	row.cells = slices.Insert(cells, at, made)
}

func (row *planted) read(now int) {
	shown := row.cells
	if row.fault == "stale read" && row.nowAndThen() {
		shown = row.before
	}
	if len(shown) > 0 && row.nowAndThen() {
		row.last = shown[0].value
	}
	// Seldom enough that changes go unseen, after the changes of this step have ended.
	if row.rng.Intn(3) > 0 {
		told := answer{known: true, cells: slices.Clone(shown)}
		row.note(request{kind: opRead}, told, 100*now+98, 100*now+99)
	}
}

func (row *planted) note(asked request, told answer, call, end int) {
	row.history = append(row.history, porcupine.Operation{
		Input: asked, Call: int64(call), Output: told, Return: int64(end),
	})
}
