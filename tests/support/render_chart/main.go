// Renders the templates of a chart with Go's own text/template: stdin has {"files": {NAME: TEXT}, "root": {...}} as JSON,
// stdout gets {NAME: RENDERED}. It is not Helm: the functions that the chart uses are here, as Helm and Sprig document them.
package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"strings"
	"text/template"
)

func toJSON(value interface{}) (string, error) {
	text, err := json.Marshal(value)
	return string(text), err
}

// A map is a block, which a template may continue; what is in it is JSON, which is YAML, too.
func toYAML(value interface{}) (string, error) {
	var lines []string
	add := func(start string, item interface{}) error {
		text, err := toJSON(item)
		lines = append(lines, start+text)
		return err
	}
	switch value := value.(type) {
	case map[string]interface{}:
		for key, item := range value {
			if err := add(fmt.Sprintf("%q: ", key), item); err != nil {
				return "", err
			}
		}
		sort.Strings(lines)
	case []interface{}:
		for _, item := range value {
			if err := add("- ", item); err != nil {
				return "", err
			}
		}
	default:
		return toJSON(value)
	}
	return strings.Join(lines, "\n"), nil
}

func main() {
	var input struct {
		Files map[string]string
		Root  map[string]interface{}
	}
	if err := json.NewDecoder(os.Stdin).Decode(&input); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	all := template.New("chart")
	all.Funcs(template.FuncMap{
		"include": func(name string, data interface{}) (string, error) {
			var out bytes.Buffer
			err := all.ExecuteTemplate(&out, name, data)
			return out.String(), err
		},
		"default": func(other, value interface{}) interface{} {
			if truth, _ := template.IsTrue(value); value != nil && truth {
				return value
			}
			return other
		},
		"fail":      func(message string) (string, error) { return "", errors.New(message) },
		"nindent":   func(width int, text string) string { pad := "\n" + strings.Repeat(" ", width); return pad + strings.ReplaceAll(text, "\n", pad) },
		"quote":     func(text string) string { return fmt.Sprintf("%q", text) },
		"sha256sum": func(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text))) },
		"toJson":    toJSON,
		"toYaml":    toYAML,
		"trunc":     func(length int, text string) string { return text[:length] },
	})
	for name, text := range input.Files {
		template.Must(all.New(name).Parse(text))
	}
	rendered := map[string]string{}
	for name := range input.Files {
		var out bytes.Buffer
		if err := all.ExecuteTemplate(&out, name, input.Root); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		rendered[name] = out.String()
	}
	json.NewEncoder(os.Stdout).Encode(rendered)
}
