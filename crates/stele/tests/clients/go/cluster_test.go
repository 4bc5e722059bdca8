package clients

import (
	"fmt"
	"io"
	"log"
	"math/rand"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// TestClusterHistories is TestHistories at a cluster. Clients go from node to node. Each node is reached
// by the others through a proxy, which stops one direction or both, delays, cuts to pieces, throttles and
// breaks their connections; whoever runs the test stops and kills nodes. At the end all nodes are asked
// for all rows, and each row must be linearizable.
func TestClusterHistories(t *testing.T) {
	if phase != "cluster" {
		t.Skip("of the phase cluster")
	}
	seed, seconds := number(t, "CLIENTS_SEED"), number(t, "CLIENTS_SECONDS")
	links := openLinks(t)
	// Each row in use is in a tablet of its own.
	createInspiteOfKills(t, "1", "2", "3")
	h := newHistorian(t, strings.Split(os.Getenv("CLIENTS_NODES"), ",")...)
	end := time.Now().Add(time.Duration(seconds) * time.Second)
	healed := make(chan int)
	go func() { healed <- disturb(t, links, rand.New(rand.NewSource(seed)), end) }()
	h.record(t, seed, end)
	disturbed := <-healed
	h.readAll(t, seed)
	h.conclude(t)
	fmt.Printf("cluster: %d disturbed links\n", disturbed)
}

// readAll reads all rows at all nodes, as soon as these answer.
func (h *historian) readAll(t *testing.T, seed int64) {
	t.Helper()
	c := newHistoryClient(h, historyClients, seed)
	var rows []string
	for row := range h.rows {
		rows = append(rows, row)
	}
	for node := range h.nodes {
		for _, row := range rows {
			begun := time.Now()
			c.node = node
			for err := c.read(row); err != nil; err = c.read(row) {
				if time.Since(begun) > 2*time.Minute {
					t.Fatalf("node %d does not answer: %v", node, err)
				}
				time.Sleep(100 * time.Millisecond)
			}
		}
	}
}

// openLinks starts the proxies LISTEN=UPSTREAM that CLIENTS_PROXIES lists, if any.
func openLinks(t *testing.T) []*toxiproxy.Proxy {
	t.Helper()
	log.SetOutput(io.Discard)
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	var links []*toxiproxy.Proxy
	for at, pair := range strings.Split(os.Getenv("CLIENTS_PROXIES"), ",") {
		listen, upstream, given := strings.Cut(pair, "=")
		if !given {
			break
		}
		link := toxiproxy.NewProxy(server, fmt.Sprintf("node %d", at), listen, upstream)
		ok(t, server.Collection.Add(link, true))
		links = append(links, link)
	}
	return links
}

// disturb does something to one link after the other, and gives how often. At the end all is well.
func disturb(t *testing.T, links []*toxiproxy.Proxy, rng *rand.Rand, end time.Time) int {
	count := 0
	for ; len(links) > 0 && time.Now().Before(end) && !t.Failed(); count++ {
		link := links[rng.Intn(len(links))]
		hold := time.Duration(200+rng.Intn(4_000)) * time.Millisecond
		if rng.Intn(5) == 0 {
			link.Stop()
			time.Sleep(hold)
			if err := link.Start(); err != nil {
				t.Errorf("a proxy does not start again: %v", err)
			}
		} else {
			poison(t, link, rng)
			time.Sleep(hold)
			link.Toxics.ResetToxics(ctx)
		}
		time.Sleep(time.Duration(rng.Intn(1_500)) * time.Millisecond)
	}
	return count
}

// poison disturbs one direction of a link, or both.
func poison(t *testing.T, link *toxiproxy.Proxy, rng *rand.Rand) {
	kinds := []string{
		// Nothing passes, and the connection stays: most often, since it looks like a slow node.
		`"timeout", "attributes": {"timeout": 0}`,
		`"timeout", "attributes": {"timeout": 0}`,
		`"latency", "attributes": {"latency": 300, "jitter": 250}`,
		`"bandwidth", "attributes": {"rate": 16}`,
		`"slicer", "attributes": {"average_size": 20, "size_variation": 10, "delay": 500}`,
		`"reset_peer", "attributes": {"timeout": 100}`,
		`"limit_data", "attributes": {"bytes": 500}`,
	}
	kind := kinds[rng.Intn(len(kinds))]
	streams := [][]string{{"upstream"}, {"downstream"}, {"upstream", "downstream"}}[rng.Intn(3)]
	for _, stream := range streams {
		description := fmt.Sprintf(`{"name": "%s", "stream": "%s", "type": %s}`, stream, stream, kind)
		if _, err := link.Toxics.AddToxicJson(strings.NewReader(description)); err != nil {
			t.Errorf("%s: %v", description, err)
		}
	}
}
