import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { completionScript } from './completion.ts';
import { createInertProgram } from './program.ts';
import { COMMANDS } from './index.ts';

type Shell = 'bash' | 'zsh' | 'fish';

let directory: string;
beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), 'cluster-completion-'));
  mkdirSync(join(directory, 'empty'));
  // A fake `cluster completion names KIND`: prints two names that contain KIND and the workspace flags of the call.
  const program = '#!/bin/sh\n[ "$1 $2" = "completion names" ] && printf "%s\\n" "$3-1" "$3-2$4$5"\n';
  writeFileSync(join(directory, 'cluster'), program);
  chmodSync(join(directory, 'cluster'), 0o755);
  const parser = await createInertProgram(COMMANDS);
  for (const shell of ['bash', 'zsh', 'fish'] as const)
    writeFileSync(join(directory, shell), completionScript(shell, parser));
});
afterAll(() => rmSync(directory, { recursive: true, force: true }));

function runShell(shell: Shell, args: readonly string[]): string {
  return execFileSync(shell, args, {
    cwd: join(directory, 'empty'),
    env: { PATH: `${directory}:/usr/bin:/bin`, HOME: directory, TERM: 'dumb' },
    encoding: 'utf8',
    timeout: 60_000,
  });
}

/** The completions that the shell offers at the end of the line. */
function complete(shell: 'bash' | 'fish', line: string): readonly string[] {
  const script = join(directory, shell);
  const text =
    shell === 'bash'
      ? runShell('bash', ['-c', BASH, 'bash', script, ...line.split(' ')])
      : runShell('fish', ['--no-config', '-c', `source ${script}; complete -C ${JSON.stringify(line)}`]);
  return text
    .split('\n')
    .map((each) => each.split('\t')[0] ?? '')
    .filter((each) => each !== '')
    .sort();
}

const BASH = `source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cluster; printf '%s\\n' "\${COMPREPLY[@]}"`;
/** Types a line and the key Tab twice at a terminal of zsh, because zsh completes only at a terminal. */
const ZSH = `zmodload zsh/zpty
zpty z zsh -f -i
zpty -w z "PS1=; autoload -U compinit; compinit -u -D; source $2; bindkey '^I' complete-word; echo REA''DY"
zpty -r z out '*READY*'
zpty -w -n z "$1$(printf '\\t\\t')"
sleep 1
zpty -w z "$(printf '\\025')echo EN''D"
zpty -r z out '*END*'
print -r -- "$out"`;

describe.each(['bash', 'fish'] as const)('the completion script for %s', (shell) => {
  const cases: readonly (readonly [line: string, offered: readonly string[]])[] = [
    ['cluster in', ['init']],
    ['cluster audit ', ['export', 'ls', 'verify']],
    ['cluster completion z', ['zsh']],
    ['cluster init --fin', ['--fingerprint']],
    ['cluster --work', ['--workspace']],
    ['cluster node show ', ['nodes-1', 'nodes-2']],
    ['cluster node show --output json ', ['nodes-1', 'nodes-2']],
    ['cluster -w /x node show ', ['nodes-1', 'nodes-2-w/x']],
    ['cluster --context prod node sho', ['show']],
    ['cluster --context ', ['contexts-1', 'contexts-2']],
    ['cluster context use ', ['contexts-1', 'contexts-2']],
    ['cluster mini stop ', ['machines-1', 'machines-2']],
    ['cluster mini down --name ', ['local-clusters-1', 'local-clusters-2']],
    ['cluster status -o ', ['human', 'json', 'name', 'wide', 'yaml']],
    ['cluster operator add ann --role ', ['operator', 'owner', 'viewer']],
    ['cluster node approve --timeout ', []],
  ];
  test.each(cases)('completes %j', (line, offered) => {
    expect(complete(shell, line)).toEqual(offered);
  });
});

test.each([
  { line: 'cluster conf', offered: /cluster config/ },
  { line: 'cluster node show ', offered: /nodes-1 +nodes-2/ },
])('the completion script for zsh completes $line', ({ line, offered }) => {
  expect(runShell('zsh', ['-f', '-c', ZSH, 'zsh', line, join(directory, 'zsh')])).toMatch(offered);
});
