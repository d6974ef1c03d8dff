import assert from 'node:assert/strict';
import { createReadStream } from 'node:fs';
import { mkdir, open } from 'node:fs/promises';
import { homedir } from 'node:os';
import { join } from 'node:path';
import { env, execPath } from 'node:process';
import { SystemClock } from '../../internal/clock/index.ts';
import { ExecaRunner, ExecError } from '../../internal/exec/index.ts';
import type { ImageMachine } from './image-machine.ts';

/** Steps and values that the stories of images share. */
export const PROJECT = join(import.meta.dirname, '../..');
export const CLI = join(PROJECT, 'dist/cluster/main.mjs');
export const AGENT_PACKAGE = join(PROJECT, 'dist/cluster-agent_0.1.0_amd64.deb');
export const PATH = `${env['PATH'] ?? ''}:/usr/sbin:/sbin`;
export const FIRMWARE_REGISTERS = [0, 1, 2, 3, 6, 7];
/** PCRs that depend on the programs that are started from the disk, and on the state of Secure Boot. */
export const DISK_REGISTERS = [4, 7, 9, 11, 12];
export const STATE_DEVICE = '/dev/disk/by-partlabel/cluster-state';
/** A recovery key of age-keygen(1). Its private half is on no machine. */
export const RECOVERY = {
  recipient: 'age1eqsckkca230dt2w5h68h3gnqqrevhygq5fljj85z3m4cz9lmd46sxk3ed0',
  key: 'AGE-SECRET-KEY-1AXVUFX45FPC6U2QPR63FR0F0ZVW20HXJXVLVRU78VQ3E23P2SKTSAVQ65R',
};
/** The console of a machine whose agent runs, after the fingerprint. */
export const NOT_A_MEMBER = /Compare it with what/;
/** The last line of what a console shows beside the challenge. */
export const SHOWS_CHALLENGE = /^Then type the code that it shows here/;
/** A console reads a code again. */
export const ASKS_AGAIN = /^Type the code and press Enter/;
/** Where systemd-boot finds images on the boot partition. */
export const SLOTS = '::/EFI/Linux';
const SECTOR_BYTES = 512;
/** Of the partition table: the entry of the second partition, and its first sector in there (UEFI 2.10 §5.3.3). */
const ENTRY = { at: 2 * SECTOR_BYTES + 128, firstSector: 32 };
const CREDENTIAL = '::/loader/credentials/provisioning.cred';
/** Time limit of a command, and of a condition: an emulated machine boots in minutes. */
const COMMAND_MS = 2_400_000;
const UNTIL_MS = 1_500_000;
const POLL_MS = 5_000;
export const clock = new SystemClock();
const commands = new ExecaRunner({ path: PATH });

/** Runs a program of the host. @returns its standard output */
export async function run(...argv: readonly [string, ...string[]]): Promise<string> {
  const { stdout } = await commands.run({
    argv,
    env: { PATH, HOME: homedir() },
    timeoutMs: COMMAND_MS,
    signal: new AbortController().signal,
  });
  return stdout;
}

/** Runs `cluster` with these arguments. */
export type Cli = (...argv: readonly string[]) => Promise<string>;

/** The operator's program with one workspace. */
export function cliOf(workspace: string): Cli {
  return async (...argv) => run(execPath, CLI, '--workspace', workspace, ...argv);
}

/** Builds the programs of this checkout. */
export async function buildPrograms(): Promise<void> {
  await run(execPath, join(PROJECT, '.ci/build.ts'));
}

/** `cluster image build` with the agent of this checkout. */
export async function buildImage(
  cli: Cli,
  image: { readonly out: string; readonly provisioning: string; readonly agent?: string },
  ...more: readonly string[]
): Promise<void> {
  const { out, provisioning, agent = AGENT_PACKAGE } = image;
  await cli('image', 'build', '--out', out, '--provisioning', provisioning, '--agent', agent, ...more);
}

/** Makes the state of a new software TPM. */
export async function makeTpm(directory: string): Promise<void> {
  await mkdir(directory);
  await run('swtpm_setup', '--tpm2', '--tpmstate', directory, '--pcr-banks', 'sha256', '--create-ek-cert');
}

/** A copy that has the holes of a sparse file. */
export async function copy(from: string, to: string): Promise<void> {
  await run('cp', '--sparse=always', from, to);
}

/** Writes another provisioning file to the boot partition of a disk. */
export async function writeProvisioning(disk: string, file: string): Promise<void> {
  await run('mcopy', '-o', '-i', `${disk}@@1M`, file, CREDENTIAL);
}

/** Where the state partition begins, in bytes. */
export async function statePartition(disk: string): Promise<number> {
  await using file = await open(disk);
  const entry = Buffer.alloc(128);
  await file.read(entry, 0, entry.length, ENTRY.at);
  return Number(entry.readBigUInt64LE(ENTRY.firstSector)) * SECTOR_BYTES;
}

/** Waits for a command that must fail. Returns the text that it prints. */
export async function failureOf(command: Promise<string>): Promise<string> {
  return command.then(
    (output) => assert.fail(`succeeded: ${output}`),
    (error: unknown) => (error instanceof ExecError ? error.outputTail : assert.fail(String(error))),
  );
}

/** Resolves once the condition is true; until then, an error counts as false. */
export async function until(what: string, isDone: () => Promise<boolean>, pauseMs = POLL_MS): Promise<void> {
  const deadlineMs = clock.monotonicMs() + UNTIL_MS;
  for (let last: unknown; ;) {
    const done = await isDone().catch((error: unknown) => {
      last = error;
      return false;
    });
    if (done) return;
    assert.ok(clock.monotonicMs() < deadlineMs, `${what}: not within ${UNTIL_MS / 1000} s: ${String(last)}`);
    await clock.sleep(pauseMs, new AbortController().signal);
  }
}

/**
 * The TPM of a machine whose disk is locked, as `--machine` of `recover`. The console shows the challenge before the init port responds, so
 * that the first calls may fail in another way.
 */
export async function identityOf(recover: Cli): Promise<string> {
  let identity = '';
  await until('the machine refuses the identity of another TPM', async () => {
    const refused = await failureOf(recover('--dry-run', '--machine', `tpm-ek:${'0'.repeat(64)}`));
    [, identity = ''] = /is (tpm-ek:[0-9a-f]{64}), expected/.exec(refused) ?? [];
    return identity !== '' && refused.includes('cluster-other-machine');
  });
  return identity;
}

/** The newest challenge on the console. */
export function challengeOf(machine: ImageMachine): string {
  const lines = machine.console().split('\n');
  const from = lines.lastIndexOf('and give it this challenge:') + 1;
  const groups = lines.slice(from, from + 4).map((line) => line.trim());
  assert.ok(
    groups.every((line) => /^[0-9A-Z]{5}(-[0-9A-Z]{5})+$/.test(line)),
    groups.join('|'),
  );
  return groups.join(' ');
}

/** The code in the output of `cluster recover disk --console`. */
export function codeOf(output: string): string {
  const [, code = ''] = /^ {2}([0-9A-Z]{5}(?:-[0-9A-Z]{5}){6})$/m.exec(output) ?? [];
  assert.notEqual(code, '', output);
  return code;
}

/** The fingerprint that the console shows, in hex. */
export function fingerprintOf(machine: ImageMachine): string {
  const [, digest = ''] = /sha256:([0-9a-f]{64})/.exec(machine.console()) ?? [];
  assert.notEqual(digest, '');
  return digest;
}

/** The position of these bytes in a file; undefined if the file does not have them. */
export async function positionOf(path: string, bytes: string | Uint8Array): Promise<number | undefined> {
  const wanted = Buffer.from(bytes);
  let offset = 0;
  let before = Buffer.alloc(0);
  for await (const chunk of createReadStream(path)) {
    const all = Buffer.concat([before, chunk as Buffer]);
    const found = all.indexOf(wanted);
    if (found !== -1) return offset + found;
    before = all.subarray(Math.max(0, all.length - wanted.length + 1));
    offset += all.length - before.length;
  }
  return undefined;
}
