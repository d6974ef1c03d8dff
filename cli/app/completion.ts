import type { Command } from 'commander';

/** The completions that may follow the words of a command: subcommands, choices of arguments, flags. */
export interface CompletionNode {
  /** The words of a command, such as "mini up"; empty for the program itself. */
  readonly path: string;
  readonly words: readonly string[];
  readonly flags: readonly string[];
}

/** A completion script that contains all words: the shell does not call this program during completion. */
export function completionScript(shell: 'bash' | 'zsh' | 'fish', program: Command): string {
  const nodes = completionNodes(program);
  switch (shell) {
    case 'bash':
      return bashScript(nodes);
    case 'zsh':
      return `#compdef cluster\nautoload -U +X bashcompinit && bashcompinit\n${bashScript(nodes)}`;
    case 'fish':
      return fishScript(nodes);
  }
}

/** The program and all its commands, depth first. */
export function completionNodes(program: Command): readonly CompletionNode[] {
  const globals = flagsOf(program);
  const walk = (command: Command, path: string): CompletionNode[] => {
    const choices = command.registeredArguments.flatMap((argument) => argument.argChoices ?? []);
    const words = [...command.commands.map((each) => each.name()), ...choices];
    const own = path === '' ? [] : flagsOf(command);
    const node = { path, words, flags: [...own, ...globals, '--help'] };
    return [
      node,
      ...command.commands.flatMap((each) => walk(each, path === '' ? each.name() : `${path} ${each.name()}`)),
    ];
  };
  return walk(program, '');
}

function flagsOf(command: Command): readonly string[] {
  return command.options.flatMap((option) => (option.long === undefined ? [] : [option.long]));
}

function bashScript(nodes: readonly CompletionNode[]): string {
  const cases = nodes.map(
    ({ path, words, flags }) => `    '${path}') words='${words.join(' ')}'; flags='${flags.join(' ')}' ;;`,
  );
  return `_cluster() {
  local current=\${COMP_WORDS[COMP_CWORD]} path='' word words flags
  for word in "\${COMP_WORDS[@]:1:COMP_CWORD-1}"; do
    case "$word" in -*) ;; *) path="\${path:+$path }$word" ;; esac
  done
  while :; do
    words=''; flags=''
    case "$path" in
${cases.map((line) => `  ${line}`).join('\n')}
      *) case "$path" in *' '*) path="\${path% *}"; continue ;; *) [ -n "$path" ] && { path=''; continue; } ;; esac ;;
    esac
    break
  done
  case "$current" in
    -*) COMPREPLY=($(compgen -W "$flags" -- "$current")) ;;
    *) COMPREPLY=($(compgen -W "$words" -- "$current")) ;;
  esac
}
complete -o default -F _cluster cluster
`;
}

function fishScript(nodes: readonly CompletionNode[]): string {
  const header = `function __cluster_path
  set -l words (commandline -opc)[2..-1]
  string join ' ' (string match -v -- '-*' $words)
end`;
  const lines = nodes.flatMap(({ path, words, flags }) => {
    const condition =
      path === ''
        ? 'test -z (__cluster_path | string collect -a)'
        : `string match -q -- '${path}*' (__cluster_path)`;
    return [
      ...words.map((word) => `complete -c cluster -f -n "${condition}" -a '${word}'`),
      ...flags.map((flag) => `complete -c cluster -n "${condition}" -l '${flag.replace(/^--/, '')}'`),
    ];
  });
  return `${[header, ...lines].join('\n')}\n`;
}
