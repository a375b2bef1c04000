// Protobuf writes the tables of all built-in kinds, and objects in both encodings to test readers with.
//
//	protobuf tables WIRE TYPES  write two files: what readers of protobuf need, and the types of the sandbox
//	protobuf kinds              the kinds in the table, one per line
//	protobuf random N SEED      N random objects of each kind, each once more with its fields in another order
//	protobuf quantities N SEED  N resource quotas with odd quantities
//	protobuf read VERSION KIND  the messages of that kind from standard input, each with its length before it
//
// Objects are written as apiVersion, kind, message and JSON; before each its length in four bytes, little-endian. JSON is what Go
// writes of the message that it has read, and empty if it refuses it.
package main

import (
	"bufio"
	"fmt"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

var schemaType = reflect.TypeFor[apiextensionsv1.JSONSchemaProps]()

func main() {
	out := bufio.NewWriter(os.Stdout)
	err := run(out, os.Args[1:])
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out *bufio.Writer, args []string) error {
	scheme, err := newScheme()
	if err != nil {
		return err
	}
	all := kinds(scheme)
	var command string
	if len(args) > 0 {
		command = args[0]
	}
	if command == "read" && len(args) == 3 {
		return writeRead(out, all, os.Stdin, args[1]+"/"+args[2])
	}
	if command == "tables" && len(args) == 3 {
		return writeTables(all, args[1], args[2])
	}
	var numbers [2]int
	for at := range min(len(numbers), max(0, len(args)-1)) {
		if numbers[at], err = strconv.Atoi(args[at+1]); err != nil {
			return err
		}
	}
	count, seed := numbers[0], int64(numbers[1])
	switch command {
	case "kinds":
		for _, one := range all {
			fmt.Fprintln(out, one)
		}
		return nil
	case "random":
		return writeRandom(out, all, seed, count)
	case "quantities":
		return writeQuantities(out, all, seed, count)
	default:
		return fmt.Errorf("usage: protobuf tables WIRE TYPES | kinds | random N SEED | quantities N SEED | read VERSION KIND")
	}
}

// writeTables writes the two tables, of one reading of the types and of their source.
func writeTables(all []kind, wire, types string) error {
	_, messages, err := messages(all)
	if err != nil {
		return err
	}
	source, err := readSources(messages)
	if err != nil {
		return err
	}
	table, err := encode(release(), all, source)
	if err != nil {
		return err
	}
	if err := os.WriteFile(wire, table, 0o644); err != nil {
		return err
	}
	table, err = typesOf(all, source)
	if err != nil {
		return err
	}
	return os.WriteFile(types, table, 0o644)
}

// release returns the version of k8s.io/api that this program was built with.
func release() string {
	info, _ := debug.ReadBuildInfo()
	for _, one := range info.Deps {
		if one.Path == "k8s.io/api" {
			return one.Version
		}
	}
	return "unknown"
}
