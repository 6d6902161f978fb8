package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/paddock-dev/paddock"
	"github.com/paddock-dev/paddock/op"
)

// input gathers an operation's input object from flags and arguments.
type input struct {
	name   string
	fields []op.Field
	values map[string]any
	words  []string // the flags that were given, as they were
}

func newInput(o op.Op) *input {
	return &input{name: strings.Join(o.CLI, " "), fields: o.Fields(), values: make(map[string]any)}
}

// addFlags gives cmd a flag for each field that has one; the others are told
// as arguments. Where these are a list from the first on, they are a command,
// whose own flags follow it.
func (in *input) addFlags(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	for _, f := range in.fields {
		if f.Flag == "" {
			if !cmd.DisableFlagsInUseLine {
				flags.SetInterspersed(f.Kind != op.KindList)
				cmd.Use += " [flags] [--]"
				cmd.DisableFlagsInUseLine = true
			}
			cmd.Use += " " + f.Arg
			continue
		}
		v := &value{field: f, in: in}
		flag := flags.VarPF(v, f.Flag, f.Short, f.Help)
		if f.Kind == op.KindBool {
			flag.NoOptDefVal = "true"
		}
		complete(cmd, f)
	}
}

// encode is the input object, with the arguments in the fields that take
// them: one each, in order, and a list takes all that are left.
func (in *input) encode(args []string) ([]byte, error) {
	if err := checkArgs(args); err != nil {
		return nil, err
	}
	rest, takes := args, "flags alone"
	for _, f := range in.fields {
		switch {
		case f.Flag != "":
			continue
		case f.Kind == op.KindList:
			in.values[f.JSON], rest = rest, nil
		case len(rest) > 0:
			val, err := f.Value(rest[0])
			if err != nil {
				return nil, err
			}
			in.values[f.JSON], rest = val, rest[1:]
		}
		takes = "no more arguments"
	}
	if len(rest) > 0 {
		return nil, &paddock.Error{
			Message: "cannot use " + strconv.Quote(rest[0]) + ": " + in.name + " takes " + takes,
			Hint:    "paddock " + in.name + " --help",
		}
	}
	data, err := json.Marshal(in.values)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the flags: %w", err)
	}
	return data, nil
}

// value is a flag that writes into the input object.
type value struct {
	field op.Field
	in    *input
}

// Set takes one occurrence of the flag; of a list each one adds to it.
func (v *value) Set(text string) error {
	val, err := v.field.Value(text)
	if err != nil {
		return err
	}
	if v.field.Kind == op.KindList {
		list, _ := v.in.values[v.field.JSON].([]any)
		val = append(list, val)
	}
	v.in.values[v.field.JSON] = val
	v.in.words = append(v.in.words, "--"+v.field.Flag+"="+text)
	return nil
}

// Type is what help texts call the value; "bool" has none.
func (v *value) Type() string {
	if v.field.Kind == op.KindBool {
		return "bool"
	}
	return v.field.Arg
}

// String is empty, for help texts to show no default: Help names it.
func (v *value) String() string { return "" }

// flagName is what a field is called here: its flag, or its argument.
func flagName(f op.Field) string {
	if f.Flag == "" {
		name, _, _ := strings.Cut(f.Arg, " ")
		return strings.Trim(name, "[].")
	}
	return "--" + f.Flag
}
