import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { MAKING_CHANGES } from '../../app/command-effects.ts';

/** A test: the path of its file, and its title. */
type Proof = readonly [file: string, title: string];

/** Why a command cannot leave a half-made change, and the test of that mechanism. */
const MECHANISMS = {
  /** A request is executed once, however often it is sent. */
  'one request': ['cli/nodes/repeated-calls.test.ts', 'keeps its idempotency key: $name'],
  /** Other programs see the file as it was before or after, never in between. */
  'one file': [
    'internal/file/file-port.test.ts',
    'a reader sees the old or the new content, never a mixture',
  ],
  'one removal': [
    'internal/file/file-port.test.ts',
    'remove() removes a file or a directory with its content, and accepts a missing path',
  ],
} as const satisfies Readonly<Record<string, Proof>>;

/**
 * The commands that make changes and are not in interrupted.itest.ts: tests that interrupt or repeat them, or the mechanism because of which they
 * need none.
 */
const ELSEWHERE: Readonly<Record<string, readonly (keyof typeof MECHANISMS | Proof)[]>> = {
  'context add': [
    'one file',
    [
      'cli/contexts/contexts.test.ts',
      'add can be repeated, and refuses a directory that is no workspace, and a name that another workspace has',
    ],
  ],
  'context use': ['one file'],
  'context remove': ['one file'],
  'config generate': [
    [
      'cli/workspace/workspace.test.ts',
      'completes the workspace after a crash at any write, and after a full disk',
    ],
  ],
  'config apply': [
    [
      'cli/configuration/apply-configuration.test.ts',
      'applies the changes in the file, and keeps the changes of other operators, also in a second run',
    ],
  ],
  'config edit': [
    ['cli/configuration/apply-configuration.test.ts', 'keeps an invalid edit for the next run'],
  ],
  init: [
    [
      'e2e/cluster/init/killed-cli.story.ts',
      'after kill -9 of the CLI in every phase and step, the same command continues the same init',
    ],
    [
      'e2e/cluster/init/interrupted.story.ts',
      'the same command resumes the init and completes the same cluster',
    ],
  ],
  join: [
    [
      'e2e/cluster/join/join-command.story.ts',
      'the same command again, with or without --wait, changes nothing',
    ],
  ],
  preflight: [
    [
      'cli/preflight/preflight.test.ts',
      'with --fix loads missing modules, sets the parameters they add, and runs the checks again',
    ],
  ],
  'package repo': [
    [
      'cli/package/package.test.ts',
      'keeps older versions when newer ones are added, and accepts the same package twice',
    ],
  ],
  'node readmit': ['one request'],
  sign: [
    ['cli/nodes/signed-changes.test.ts', 'sign signs the current records after confirmation'],
    'one request',
    'one file',
  ],
  'operator add': ['one request'],
  'operator key': [
    'one file',
    [
      'cli/operators/operators.test.ts',
      'keeps an existing key and never replaces the key of another operator',
    ],
  ],
  'operator accept': ['one file'],
  'audit export': ['one file'],
  kubeconfig: ['one file'],
  'backup create': [
    [
      'e2e/cluster/backup/backup.story.ts',
      'the control plane takes the backup, and the workstation verifies it while receiving it',
    ],
  ],
  'backup verify': ['one file'],
  'backup fetch': [
    ['cli/backup/schedule/schedule.test.ts', 'backup fetch downloads and verifies the newest proved backup'],
  ],
  'backup schedule set': ['one request'],
  'backup schedule stop': [
    [
      'cli/backup/schedule/schedule.test.ts',
      'stop can be repeated: without a schedule, there is nothing to stop',
    ],
  ],
  'backup delete': ['one removal'],
  restore: [
    [
      'e2e/cluster/backup/restore.story.ts',
      'the command is killed and the machine loses its power while it restores the databases',
    ],
    [
      'e2e/cluster/backup/restore.story.ts',
      'the same command continues, and the cluster is restored with the same ID and a new epoch',
    ],
  ],
  'support bundle': [
    [
      'e2e/cluster/backup/backup.story.ts',
      'a support bundle has logs and states, and no secret of the cluster',
    ],
  ],
  'recover quorum': [
    [
      'cli/recover/recover.test.ts',
      'waits for a recovery that was already ordered, and does not order it again',
    ],
  ],
  'recover space': [
    ['cli/recover/recover-space.itest.ts', 'freeSpace() continues after an interruption at any step'],
  ],
  'recover disk': [
    [
      'bootstrapper/machineservice/locked-disk.itest.ts',
      'opens the disk only once when the recovery key of an owner arrives twice',
    ],
    [
      'bootstrapper/disk/disk.itest.ts',
      'of a recovery never leaves a disk that is open now, but locked at the next boot',
    ],
  ],
  'mini up': [
    [
      'e2e/machines/killed-up.story.ts',
      'after kill -9 of mini up, the same command continues and creates nothing twice',
    ],
  ],
  'mini down': [
    [
      'e2e/machines/killed-up.story.ts',
      'after kill -9 ${ms} ms after "${after}", mini down restores the host',
    ],
  ],
  'mini restore': [
    [
      'e2e/cluster/backup/restore.story.ts',
      'a restore drill (mini restore) that was killed leaves a local machine, which the next drill replaces',
    ],
  ],
  'mini start': [
    [
      'e2e/machines/stopped-machines.story.ts',
      '`mini up` starts the machines of an existing cluster that do not run',
    ],
  ],
  'mini stop': [
    ['e2e/machines/one-machine.story.ts', 'a machine keeps only its disk and identity over power cycles'],
  ],
  'config passphrase': [
    [
      'cli/workspace/change-passphrase.test.ts',
      'if $name a passphrase is interrupted at any write, each file stays whole, and the same command completes the change',
    ],
  ],
  'bundle build': [
    [
      'internal/bundlebuild/build-bundle.test.ts',
      'removes the work directory of a run that was killed a day ago',
    ],
    ['internal/bundlebuild/build-bundle.test.ts', 'builds only the component that is missing in the store'],
  ],
  'bundle fetch': [
    [
      'internal/bundlebuild/fetch-bundle.test.ts',
      'writes every hash into the lock file, and downloads nothing again when all files are stored',
    ],
  ],
  'image build': [
    [
      'cli/image/build-image.test.ts',
      'runImageBuild() deletes the files that an interrupted run left, and its own files when it fails',
    ],
  ],
  'attest collateral refresh': [
    ['cli/attest/collateral-refresh.test.ts', 'refuses $name, and keeps the saved documents'],
    'one file',
  ],
  'attest collateral upload': ['one request'],
  'node rotate-disk-keys': [
    [
      'bootstrapper/disk/rotate-keys.itest.ts',
      'of a rotation leaves a disk that opens at the next start, $name',
    ],
    ['bootstrapper/disk/rotate-keys.itest.ts', 'carries out an order once, however often it is sent'],
  ],
  'attest approve': [
    [
      'bootstrapper/disk/disk.itest.ts',
      'of an approval, or of the first start with an approval key, leaves a disk that opens at the next start',
    ],
    'one request',
  ],
};

/** Runs a program on a local machine, and changes nothing of its own. */
const WITHOUT_CHANGES: ReadonlySet<string> = new Set(['mini exec']);

const ROOT = join(import.meta.dirname, '../../..');

/** Titles of the tests in a file, as its text has them. */
async function titlesOf(file: string): Promise<ReadonlySet<string>> {
  const text = await readFile(join(ROOT, file), 'utf8');
  const named = text.matchAll(
    /\btest(?:\.each\([^]*?\)|\.each<[^]*?>\([^]*?\))?\(\s*(['`])((?:\\.|(?!\1)[^\\])*)\1/g,
  );
  return new Set([...named].map(([, , title = '']) => title.replaceAll(/\\(.)/g, '$1')));
}

/** The commands that interrupted.itest.ts interrupts at each of their effects. */
async function interruptedCommands(): Promise<readonly string[]> {
  const text = await readFile(join(import.meta.dirname, 'interrupted.itest.ts'), 'utf8');
  return [...text.matchAll(/\bcommand: '([a-z -]+)'/g)].map(([, command = '']) => command);
}

test('every command that makes changes is interrupted in a test, or cannot leave half a change', async () => {
  const known = [...(await interruptedCommands()), ...Object.keys(ELSEWHERE), ...WITHOUT_CHANGES];
  expect([...new Set(known)].sort()).toEqual([...MAKING_CHANGES].sort());
  const empty = Object.entries(ELSEWHERE).filter(([, reasons]) => reasons.length === 0);
  expect(empty).toEqual([]);
});

test('the named tests exist', async () => {
  const named = [...Object.values(ELSEWHERE), Object.values(MECHANISMS)].flat();
  const missing: Proof[] = [];
  for (const each of named)
    if (typeof each !== 'string' && !(await titlesOf(each[0])).has(each[1])) missing.push(each);
  expect(missing).toEqual([]);
});
