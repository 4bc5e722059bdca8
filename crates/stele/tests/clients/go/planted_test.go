package clients

import (
	"fmt"
	"math/rand"
	"sort"
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestTheCheckerSeesWhatIsPlanted makes histories of a row that has a fault, step by step and without
// a server: what is right must pass the check of the histories, and what is wrong must not.
func TestTheCheckerSeesWhatIsPlanted(t *testing.T) {
	const histories = 40
	for _, fault := range []string{"none", "old time", "same time", "lost", "stale read"} {
		refused := 0
		for seed := range int64(histories) {
			if !isLinearizable(plant(seed, fault)) {
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
	// Its cells, oldest first, now and before the last write.
	cells, before []plantedCell
	waiting       []waitingWrite
	history       []porcupine.Operation
}

type plantedCell struct {
	time  int
	value string
}

// waitingWrite takes effect when it is due.
type waitingWrite struct {
	asked       request
	called, due int
}

func plant(seed int64, fault string) []porcupine.Operation {
	row := planted{fault: fault, rng: rand.New(rand.NewSource(seed))}
	for now := 1; now <= 120; now++ {
		if row.rng.Intn(2) == 0 {
			asked := request{kind: opWrite, value: fmt.Sprintf("n%d", now)}
			row.waiting = append(row.waiting, waitingWrite{asked, now, now + row.rng.Intn(8)})
		}
		row.commit(now)
		row.read(now)
	}
	return row.history
}

// commit lets what is due take effect.
func (row *planted) commit(now int) {
	var later []waitingWrite
	for at, write := range row.waiting {
		if write.due > now {
			later = append(later, write)
			continue
		}
		row.before = row.cells
		if row.fault != "lost" || row.rng.Intn(20) > 0 {
			row.put(row.time(write, now, at), write.asked.value)
		}
		row.note(write.asked, answer{known: true}, 10*write.called, 10*now+1+at)
	}
	row.waiting = later
}

// time is that of a write: when it takes effect, if the row has no fault.
func (row *planted) time(write waitingWrite, now, at int) int {
	switch row.fault {
	case "old time":
		return 10 * write.called
	case "same time":
		return now / 4
	default:
		return 10*now + at
	}
}

// put writes a cell, over one of the same time.
func (row *planted) put(time int, value string) {
	at := sort.Search(len(row.cells), func(i int) bool { return row.cells[i].time >= time })
	cells := append([]plantedCell{}, row.cells[:at]...)
	cells = append(cells, plantedCell{time, value})
	if at < len(row.cells) && row.cells[at].time == time {
		at++
	}
	row.cells = append(cells, row.cells[at:]...)
}

func (row *planted) read(now int) {
	shown, values := row.cells, ""
	if row.fault == "stale read" && row.rng.Intn(4) == 0 {
		shown = row.before
	}
	for _, cell := range shown {
		values = push(values, cell.value)
	}
	// After the writes of this step have ended.
	row.note(request{kind: opRead}, answer{known: true, values: values}, 10*now+8, 10*now+9)
}

func (row *planted) note(asked request, told answer, call, end int) {
	row.history = append(row.history, porcupine.Operation{
		Input: asked, Call: int64(call), Output: told, Return: int64(end),
	})
}
