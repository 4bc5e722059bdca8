// Command emulator serves Google's emulator of Bigtable on a free port of loopback, and prints the
// address on a line of its own. It ends when its standard input does.
package main

import (
	"fmt"
	"io"
	"log"
	"os"

	"cloud.google.com/go/bigtable/bttest"
	"google.golang.org/grpc"
)

// messageBytesMax is the size of the largest message: bttest by itself takes 4 MiB.
const messageBytesMax = 256 << 20

func main() {
	server, err := bttest.NewServer("127.0.0.1:0",
		grpc.MaxRecvMsgSize(messageBytesMax), grpc.MaxSendMsgSize(messageBytesMax))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(server.Addr)
	_, _ = io.Copy(io.Discard, os.Stdin)
	server.Close()
}
