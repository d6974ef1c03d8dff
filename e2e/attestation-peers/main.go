// Command attestation-peers judges evidence with verifiers that others wrote, for comparison with ours. It reads one
// JSON request a line on standard input and answers one JSON verdict a line on file descriptor 3. It is a test program: it trusts what it is told to judge.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// verdictsFD is where verdicts go: the peers log to standard output.
const verdictsFD = 3

// request is one case. Parts are base64 in JSON.
type request struct {
	ID    int               `json:"id"`
	Kind  string            `json:"kind"`
	Now   int64             `json:"now"`
	Parts map[string][]byte `json:"parts"`
	// PCRs by index, for kinds tpm and log.
	PCRs map[int][]byte `json:"pcrs"`
	// Repeat measures: how often the case is judged, one time by default.
	Repeat int `json:"repeat"`
}

type verdict struct {
	ID       int    `json:"id"`
	Accepted bool   `json:"accepted"`
	Error    string `json:"error,omitempty"`
	// NsPerCase is the mean over Repeat.
	NsPerCase int64 `json:"nsPerCase"`
}

var judges = map[string]func(request) error{
	"snp": judgeSnp,
	"tdx": judgeTdx,
	"tpm": judgeQuote,
	"log": judgeLog,
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run() error {
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(make([]byte, 1<<20), 16<<20)
	out := bufio.NewWriter(os.NewFile(verdictsFD, "verdicts"))
	encoder := json.NewEncoder(out)
	for in.Scan() {
		var asked request
		if err := json.Unmarshal(in.Bytes(), &asked); err != nil {
			return fmt.Errorf("reading a request: %w", err)
		}
		if err := encoder.Encode(judge(asked)); err != nil {
			return err
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	return in.Err()
}

func judge(asked request) verdict {
	answer := verdict{ID: asked.ID}
	work, known := judges[asked.Kind]
	if !known {
		answer.Error = "unknown kind " + asked.Kind
		return answer
	}
	repeat := max(asked.Repeat, 1)
	start := time.Now()
	var err error
	for range repeat {
		err = guarded(work, asked)
	}
	answer.NsPerCase = time.Since(start).Nanoseconds() / int64(repeat)
	answer.Accepted = err == nil
	if err != nil {
		answer.Error = err.Error()
	}
	return answer
}

// guarded makes a refusal of a panic: some peers index before they check.
func guarded(work func(request) error, asked request) (err error) {
	defer func() {
		if caught := recover(); caught != nil {
			err = fmt.Errorf("panic: %v", caught)
		}
	}()
	return work(asked)
}
