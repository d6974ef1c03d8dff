import { LockedDisk, type DescribeResponse, type Register } from '../../initproto/gen/disk_pb.js';
import { encryptForTpm } from '../../internal/attestation/enrolment/index.ts';
import { BackupError, decryptAge, type RecoveryKey } from '../../internal/backup/index.ts';
import { parseEndpoint, PORTS } from '../../internal/endpoint/index.ts';
import { CodedError, type ExitName } from '../../internal/errors/index.ts';
import { printable } from '../../internal/printable/index.ts';
import type { Client } from '../../internal/rpc/index.ts';
import { Secret } from '../../internal/secret/index.ts';
import { MAX_RECOVERY_SHARES, RECOVERY_SHARE_BYTES, SHARE_BYTES } from '../../internal/statedisk/index.ts';
import type { CommandContext } from '../app/command.ts';
import { readRecoveryKey } from '../backup/index.ts';
import { readCaller, readLastNodes, withKnownMachine, type KnownMachine } from '../cluster/index.ts';
import { formatTable } from '../host/index.ts';
import { MachinePins } from '../nodes/index.ts';
import { layoutOf, readOwnerKey } from '../workspace/index.ts';
import { RecoverError } from './errors.ts';

const ANSWER_MS = 30_000;
/** Time limit for the machine, which derives keys and seals the disk again; this may be slow. */
const RECOVER_MS = 300_000;
/** The agent's name for the state of its enrolment while the disk is locked. */
const LOCKED = 'DiskLocked';
const MAX_RECOVERY_BYTES = 64 * 1024;
const MAX_REGISTERS = 24;
const REGISTER_BYTES = 32;
const EK = /^tpm-ek:([0-9a-f]{64})$/;

/** Arguments of `cluster recover disk`. */
export interface RecoverDiskOptions {
  /** HOST or HOST:PORT; undefined: the address that the node had last. */
  readonly address: string | undefined;
  /** "tpm-ek:HEX"; undefined: the machine that this workspace knows under the name. */
  readonly machine: string | undefined;
  /** File with an age identity; undefined: the recovery key of the owner. */
  readonly recoveryKey: string | undefined;
  readonly yes: boolean;
  /** Show what has changed and change nothing. */
  readonly dryRun: boolean;
}

/**
 * `cluster recover disk`: opens the state disk of a machine whose TPM does not release the disk key, and seals the disk
 * to the current registers of the machine. The recovery key, or the share of one owner, is decrypted here, and sent so
 * that only the TPM of this machine can read it. If several owners must act, each runs this command; the last one opens the disk.
 * @throws RecoverError, ClusterError, BackupError, RemoteError `disk-recovery-refused`
 */
export async function runRecoverDisk(
  context: CommandContext,
  name: string,
  options: RecoverDiskOptions,
): Promise<ExitName> {
  const target = await chooseTarget(context, name, options);
  try {
    return await withKnownMachine(context, target, (machine) =>
      recoverDisk(context, { name, options, machine }),
    );
  } catch (error) {
    // A node whose disk is open has closed its init port.
    if (!(error instanceof CodedError && error.code === 'cluster-machine-is-node')) throw error;
    return reportOpen(context, name);
  }
}

async function recoverDisk(
  context: CommandContext,
  at: { readonly name: string; readonly options: RecoverDiskOptions; readonly machine: KnownMachine },
): Promise<ExitName> {
  const { host, signal } = context;
  const { name, options, machine } = at;
  if (machine.enrolmentState !== LOCKED) return reportOpen(context, name);
  const client = machine.session.clientOf(LockedDisk);
  const locked = await client.describe({}, { signal, timeoutMs: ANSWER_MS });
  requireHonest(locked, machine);
  const view = viewOf(locked);
  if (options.dryRun) {
    host.result({ node: name, ...view, dryRun: true }, () => renderLocked(name, locked));
    return 'ok';
  }
  const secret = await decryptSecret(context, locked, options);
  host.say('recover-disk-changes', renderLocked(name, locked), view);
  const question = `Open the disk of ${name} for the software with these registers?`;
  await confirmRecovery(context, { name, question, yes: options.yes });
  const missing = await host.step('recover-disk', `Recovering the state disk of ${name}`, () =>
    sendSecret(client, { machine, secret, signal }),
  );
  if (missing > 0) {
    host.result({ node: name, ...view, state: 'locked', missing }, () =>
      [
        `The machine ${name} has your share of the recovery key. ${missing} more ${missing === 1 ? 'owner' : 'owners'} must run this command before its state disk opens.`,
        'The machine keeps the shares in memory: after a restart, or if its registers change, all owners begin again.',
      ].join('\n'),
    );
    return 'partial';
  }
  host.result({ node: name, ...view, state: 'open' }, () =>
    [
      `The state disk of ${name} is open, and sealed to the registers that the machine has now. At its next start the machine opens it by itself.`,
      'The agent of the machine starts now.',
    ].join('\n'),
  );
  return 'ok';
}

/** The address and the TPM of the machine. @throws RecoverError `recover-disk-machine-unknown` */
async function chooseTarget(
  context: CommandContext,
  name: string,
  { address: given, machine }: RecoverDiskOptions,
): Promise<{ readonly endpoint: string; readonly expected: string }> {
  const identity = machine ?? (await MachinePins.read(context)).of(name)?.identity;
  const expected = EK.exec(identity ?? '')?.[1];
  if (expected === undefined)
    throw unknown(
      identity === undefined
        ? `this workspace knows no machine ${printable(name)}`
        : `${printable(identity)} is not the endorsement key of a TPM`,
    );
  const address = given ?? (await lastAddress(context, name));
  if (address === undefined) throw unknown(`the address of ${printable(name)} is not known`);
  const endpoint = parseEndpoint(address, PORTS.init);
  if (endpoint === undefined) throw unknown(`invalid address ${JSON.stringify(printable(address))}`);
  return { endpoint, expected };
}

async function lastAddress(context: CommandContext, name: string): Promise<string | undefined> {
  const last = await readLastNodes(context, await readCaller(context));
  return last?.nodes.find((node) => node.name === name)?.address;
}

function unknown(why: string): RecoverError {
  return new RecoverError('recover-disk-machine-unknown', `recovering a state disk: ${why}`);
}

/** Compares the answer with the quoted registers. @throws RecoverError `recover-disk-answer-invalid` */
function requireHonest(
  { recovery, threshold, shares, given, registers }: DescribeResponse,
  { peer }: KnownMachine,
): void {
  const isWellFormed =
    [recovery, ...shares].every(({ length }) => length <= MAX_RECOVERY_BYTES) &&
    shares.length <= MAX_RECOVERY_SHARES &&
    (threshold <= 1 ? shares.length === 0 : threshold <= shares.length && given <= shares.length) &&
    registers.length <= MAX_REGISTERS &&
    registers.every(({ sealed, now }) => [sealed, now].every(({ length }) => length === REGISTER_BYTES));
  if (!isWellFormed) throw invalid('malformed');
  const other = registers.find(({ pcr, now }) => {
    const quoted = peer.measurements.get(`pcr${pcr}`);
    return quoted !== undefined && !Buffer.from(quoted).equals(now);
  });
  if (other !== undefined) throw invalid(`PCR ${other.pcr} is not the quoted one`);
}

function invalid(why: string): RecoverError {
  return new RecoverError('recover-disk-answer-invalid', `reading the description of the state disk: ${why}`);
}

/** The recovery key, or the share of this owner. @throws BackupError, RecoverError `recover-disk-no-share` */
async function decryptSecret(
  context: CommandContext,
  { recovery, shares }: DescribeResponse,
  options: RecoverDiskOptions,
): Promise<Secret<Uint8Array>> {
  const { keyPem } = await readOwnerKey(context, layoutOf(context.paths.workspace));
  const key = await readRecoveryKey(context, keyPem, options.recoveryKey);
  if (shares.length === 0) return decryptOf(SHARE_BYTES, recovery, key);
  let cause: unknown;
  for (const share of shares) {
    try {
      return await decryptOf(RECOVERY_SHARE_BYTES, share, key);
    } catch (error) {
      if (!(error instanceof BackupError && error.code === 'backup-no-recovery-key')) throw error;
      cause = error; // the share of another owner
    }
  }
  throw new RecoverError(
    'recover-disk-no-share',
    `decrypting a share of the recovery key, which ${shares.length} owners have`,
    { cause },
  );
}

async function decryptOf(length: number, sealed: Uint8Array, key: RecoveryKey): Promise<Secret<Uint8Array>> {
  async function* bytes(): AsyncGenerator<Uint8Array> {
    yield await Promise.resolve(sealed);
  }
  const plain = Buffer.concat(await Array.fromAsync(decryptAge(bytes(), [key])));
  if (plain.length !== length) throw invalid(`${plain.length} bytes instead of ${length}`);
  return new Secret(new Uint8Array(plain));
}

/** Asks before the disk of a machine is opened. @throws RecoverError `recover-disk-not-confirmed` */
export async function confirmRecovery(
  { host }: CommandContext,
  { name, question, yes }: { readonly name: string; readonly question: string; readonly yes: boolean },
): Promise<void> {
  if (yes) return;
  if (host.interactive && (await host.confirm(question, false))) return;
  throw new RecoverError('recover-disk-not-confirmed', `recovering the state disk of ${printable(name)}`);
}

/** @returns how many more owners must act */
async function sendSecret(
  client: Client<typeof LockedDisk>,
  {
    machine: { endorsement, peer },
    secret,
    signal,
  }: {
    readonly machine: KnownMachine;
    readonly secret: Secret<Uint8Array>;
    readonly signal: AbortSignal;
  },
): Promise<number> {
  const { challenge, nonce, ciphertext } = encryptForTpm(secret, endorsement, peer.session);
  const request = {
    challenge: Buffer.from(challenge, 'base64'),
    nonce: Buffer.from(nonce, 'base64'),
    ciphertext: Buffer.from(ciphertext, 'base64'),
  };
  return (await client.recover(request, { signal, timeoutMs: RECOVER_MS })).missing;
}

function reportOpen({ host }: CommandContext, name: string): ExitName {
  host.result({ node: name, state: 'open' }, () => `The state disk of ${name} is open. Nothing was changed.`);
  return 'ok';
}

function renderLocked(name: string, locked: DescribeResponse): string {
  const { device, uuid, code, message, registers, threshold, shares, given } = locked;
  const row = (register: Register): string[] => [
    String(register.pcr),
    hex(register.sealed),
    isChanged(register) ? hex(register.now) : 'unchanged',
  ];
  return [
    `The state disk of ${name} (${printable(device)}, ${printable(uuid)}) does not open: ${printable(code)}: ${printable(message)}`,
    ...(threshold > 1
      ? [
          `The disk opens when ${threshold} of its ${shares.length} owners have given their shares; the machine has ${given} of them.`,
        ]
      : []),
    formatTable(['PCR', 'SEALED TO', 'NOW'], registers.map(row)),
  ].join('\n');
}

function viewOf({ device, uuid, code, message, registers, threshold, shares, given }: DescribeResponse) {
  const texts = { device, uuid, code, message };
  return {
    ...Object.fromEntries(Object.entries(texts).map(([key, text]) => [key, printable(text)])),
    ...(threshold > 1 && { owners: { needed: threshold, of: shares.length, given } }),
    registers: registers.map((register) => ({
      pcr: register.pcr,
      sealed: hex(register.sealed),
      now: hex(register.now),
      isChanged: isChanged(register),
    })),
  };
}

function isChanged({ sealed, now }: Register): boolean {
  return !Buffer.from(sealed).equals(now);
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
