import type { Argument, Command, Option } from 'commander';
import { commandPath } from './find-command.ts';

/** The completions that may follow the words of a command. */
export interface CompletionNode {
  /** The words of a command, such as "mini up"; empty for the program itself. */
  readonly path: string;
  /** Subcommands, and choices of arguments. */
  readonly words: readonly string[];
  readonly flags: readonly string[];
  /** The kind of names that complete the command’s arguments, as in `cluster completion names KIND`; '' if its arguments are no names. */
  readonly names: string;
}

/** A flag with a value that can be completed: its choices, or a kind of names. */
interface CompletedFlag {
  /** "PATH --flag", or " --flag" for a flag of every command. */
  readonly key: string;
  readonly choices: readonly string[];
  readonly names: string;
}

/**
 * A completion script that contains all words. The shell calls this program only for names of nodes, contexts and local
 * clusters, which the program reads from files on this workstation.
 */
export function completionScript(shell: 'bash' | 'zsh' | 'fish', program: Command): string {
  const parts = {
    nodes: completionNodes(program),
    flags: completedFlags(program),
    withValue: flagsWithValue(program),
  };
  switch (shell) {
    case 'bash':
      return bashScript(parts);
    case 'zsh':
      return `#compdef cluster\nautoload -U +X bashcompinit && bashcompinit\n${bashScript(parts)}`;
    case 'fish':
      return fishScript(parts);
  }
}

/** The program and all its commands, depth first. */
export function completionNodes(program: Command): readonly CompletionNode[] {
  const globals = flagsOf(program);
  return withDescendants(program).map((command) => {
    const path = commandPath(command);
    const choices = command.registeredArguments.flatMap((argument) => argument.argChoices ?? []);
    return {
      path,
      words: [...command.commands.map((each) => each.name()), ...choices],
      flags: [...(path === '' ? [] : flagsOf(command)), ...globals, '--help'],
      names: command.registeredArguments.map((argument) => namesOf(path, argument)).find(Boolean) ?? '',
    };
  });
}

interface Parts {
  readonly nodes: readonly CompletionNode[];
  readonly flags: readonly CompletedFlag[];
  /** Flags that are followed by a value, in long and short form. */
  readonly withValue: readonly string[];
}

function completedFlags(program: Command): readonly CompletedFlag[] {
  return withDescendants(program).flatMap((command) => {
    const path = commandPath(command);
    return command.options.flatMap((option) => {
      const choices = option.argChoices ?? [];
      const names = namesOfFlag(path, option);
      if (choices.length === 0 && names === '') return [];
      return spellings(option).map((flag) => ({ key: `${path} ${flag}`, choices, names }));
    });
  });
}

function flagsWithValue(program: Command): readonly string[] {
  const options = withDescendants(program).flatMap((command) => command.options);
  return [...new Set(options.filter((each) => each.required || each.optional).flatMap(spellings))].sort();
}

/**
 * The kind of names that complete an argument. The argument `node` of `cluster mini` is a machine of the local cluster,
 * not a node of the workspace.
 */
function namesOf(path: string, argument: Argument): string {
  if (argument.name() === 'context') return 'contexts';
  if (argument.name() !== 'node') return '';
  return path.startsWith('mini ') ? 'machines' : 'nodes';
}

function namesOfFlag(path: string, { long }: Option): string {
  if (path === '' && long === '--context') return 'contexts';
  return path.startsWith('mini ') && long === '--name' ? 'local-clusters' : '';
}

function withDescendants(command: Command): readonly Command[] {
  return [command, ...command.commands.flatMap(withDescendants)];
}

function spellings({ long, short }: Option): readonly string[] {
  return [long, short].filter((flag) => flag !== undefined);
}

function flagsOf(command: Command): readonly string[] {
  return command.options.flatMap((option) => (option.long === undefined ? [] : [option.long]));
}

function bashScript({ nodes, flags, withValue }: Parts): string {
  const cases = nodes.map(
    ({ path, words, flags: own, names }) =>
      `      '${path}') words='${words.join(' ')}'; flags='${own.join(' ')}'; names='${names}' ;;`,
  );
  const values = flags.map(
    ({ key, choices, names }) => `      '${key}') words='${choices.join(' ')}'; names='${names}' ;;`,
  );
  // The variable is not named `path`: in zsh, `path` is the list of directories with programs.
  return `_cluster() {
  local current=\${COMP_WORDS[COMP_CWORD]} command='' flag='' word words='' flags='' names=''
  local -a scope=()
  for word in "\${COMP_WORDS[@]:1:$((COMP_CWORD-1))}"; do
    if [ -n "$flag" ]; then
      case "$flag" in -w|--workspace|--context|--identity) scope+=("$flag" "$word") ;; esac
      flag=''; continue
    fi
    case "$word" in
      ${withValue.join('|')}) flag=$word ;;
      -*) ;;
      *) command="\${command:+$command }$word" ;;
    esac
  done
  while :; do
    case "$command" in
${cases.join('\n')}
      *' '*) command="\${command% *}"; continue ;;
      *) command=''; continue ;;
    esac
    break
  done
  if [ -n "$flag" ]; then
    words=''; names=''
    for word in "$command $flag" " $flag"; do
      case "$word" in
${values.map((line) => `  ${line}`).join('\n')}
        *) continue ;;
      esac
      break
    done
  elif [ "\${current#-}" != "$current" ]; then
    words=$flags; names=''
  fi
  if [ -n "$names" ]; then words="$words $("\${COMP_WORDS[0]}" completion names "$names" "\${scope[@]}" 2>/dev/null)"; fi
  COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _cluster cluster
`;
}

function fishScript(parts: Parts): string {
  const { cases, values } = fishCases(parts);
  return `function __cluster_complete
    set -l tokens (commandline -opc)
    set -l current (commandline -ct)
    set -l path ''
    set -l flag ''
    set -l scope
    set -l words
    set -l flags
    set -l names ''
    for word in $tokens[2..-1]
        if test -n "$flag"
            switch "$flag"
                case -w --workspace --context --identity
                    set -a scope $flag $word
            end
            set flag ''
            continue
        end
        switch "$word"
            case ${parts.withValue.join(' ')}
                set flag $word
            case '-*'
            case '*'
                set path (string trim -- "$path $word")
        end
    end
    while true
        switch "$path"
${cases.join('\n')}
            case '*'
                if string match -q -- '* *' "$path"
                    set path (string replace -r ' [^ ]*$' '' -- "$path")
                else
                    set path ''
                end
                continue
        end
        break
    end
    if test -n "$flag"
        set words
        set names ''
        for word in "$path $flag" " $flag"
            switch "$word"
${values.join('\n')}
            end
        end
        test -z "$words$names"; and __fish_complete_path "$current"
    else if string match -q -- '-*' "$current"
        set words $flags
        set names ''
    end
    for word in $words
        echo $word
    end
    test -n "$names"; and command $tokens[1] completion names $names $scope 2>/dev/null
end
complete -c cluster -f -a '(__cluster_complete)'
`;
}

/** The cases of commands, and of flags whose value can be completed. */
function fishCases({ nodes, flags }: Parts): {
  readonly cases: readonly string[];
  readonly values: readonly string[];
} {
  const list = (words: readonly string[]): string => words.map((word) => ` '${word}'`).join('');
  const cases = nodes.map(
    ({ path, words, flags: own, names }) =>
      `            case '${path}'\n                set words${list(words)}\n                set flags${list(own)}\n                set names '${names}'`,
  );
  const values = flags.map(
    ({ key, choices, names }) =>
      `                case '${key}'\n                    set words${list(choices)}\n                    set names '${names}'\n                    break`,
  );
  return { cases, values };
}
