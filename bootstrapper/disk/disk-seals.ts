import { randomBytes } from 'node:crypto';
import { Secret } from '../../internal/secret/index.ts';
import { SHARE_BYTES, type DiskShares, type RecordContent } from '../../internal/statedisk/index.ts';
import { readPcrs, sealProved, TpmError, unsealProved } from '../../internal/tpm/index.ts';
import type { DiskPorts, DiskSettings } from './disk-settings.ts';
import { DiskError } from './errors.ts';

/** The part of a record that belongs to the shares. */
export type DiskSeals = Pick<RecordContent, 'nodeShare' | 'clusterShare' | 'registers'>;

/** Error codes of a TPM that has the sealed share, but refuses to release it. */
const LOCKED: ReadonlySet<string> = new Set([
  'tpm-policy-failed',
  'tpm-credential-rejected',
  'tpm-seal-unproved',
  'tpm-storage-key-changed',
]);

/** Two new random shares. */
export function createShares(): DiskShares {
  return { node: randomSecret(), cluster: randomSecret() };
}

/** 32 random bytes. */
export function randomSecret(): Secret<Uint8Array> {
  return new Secret(new Uint8Array(randomBytes(SHARE_BYTES)));
}

/** Seals both shares to the TPM and the current PCRs. */
export function sealShares(
  { tpm }: DiskPorts,
  { pcrs }: DiskSettings,
  { shares, uuid }: { readonly shares: DiskShares; readonly uuid: string },
  signal: AbortSignal,
): Promise<DiskSeals> {
  return tpm.use(signal, async (connection) => ({
    nodeShare: await sealProved(connection, shares.node, { purpose: purposeOf('node', uuid), pcrs }, signal),
    clusterShare: await sealProved(
      connection,
      shares.cluster,
      { purpose: purposeOf('cluster', uuid), pcrs },
      signal,
    ),
    registers: await readPcrs(connection, { hash: 'sha256', pcrs }, signal),
  }));
}

/** A TPM register (PCR, SHA-256) to whose value the shares are sealed. */
export interface SealedRegister {
  readonly pcr: number;
  /** The value in the record of the disk. It is proved only after the share was unsealed. */
  readonly sealed: Uint8Array;
  readonly now: Uint8Array;
}

/** Reads the registers to which the shares are sealed, with their current values. */
export function readSealedRegisters(
  { tpm }: Pick<DiskPorts, 'tpm'>,
  { pcrs }: DiskSettings,
  { registers }: Pick<RecordContent, 'registers'>,
  signal: AbortSignal,
): Promise<readonly SealedRegister[]> {
  return tpm.use(signal, async (connection) => {
    const now = await readPcrs(connection, { hash: 'sha256', pcrs }, signal);
    const none = new Uint8Array();
    return pcrs.map((pcr) => ({ pcr, sealed: registers.get(pcr) ?? none, now: now.get(pcr) ?? none }));
  });
}

/** Unseals one share. @throws DiskError `disk-locked`: the details name the registers that changed */
export async function unsealShare(
  ports: Pick<DiskPorts, 'tpm'>,
  settings: DiskSettings,
  options: { readonly which: keyof DiskShares; readonly content: RecordContent },
  signal: AbortSignal,
): Promise<Secret<Uint8Array>> {
  const { which, content } = options;
  const sealed = which === 'node' ? content.nodeShare : content.clusterShare;
  const purpose = { purpose: purposeOf(which, content.uuid), pcrs: settings.pcrs };
  try {
    return await ports.tpm.use(signal, (connection) => unsealProved(connection, sealed, purpose, signal));
  } catch (cause) {
    if (!(cause instanceof TpmError) || !LOCKED.has(cause.code)) throw cause;
    const registers = await readSealedRegisters(ports, settings, content, signal);
    throw lockedError(which, registers, cause);
  }
}

function lockedError(
  which: keyof DiskShares,
  registers: readonly SealedRegister[],
  cause: TpmError,
): DiskError {
  const changed = registers.filter((register) => hex(register.now) !== hex(register.sealed));
  const names = changed.map(({ pcr }) => `pcr${pcr}`).join(', ');
  const details = Object.fromEntries(
    changed.map(({ pcr, sealed, now }) => [`pcr${pcr}`, { sealed: hex(sealed), now: hex(now) }]),
  );
  return new DiskError(
    'disk-locked',
    `unsealing the ${which} share of the state disk: ${names === '' ? 'no register changed' : `changed: ${names}`}`,
    { cause, details },
  );
}

function purposeOf(which: keyof DiskShares, uuid: string): string {
  return `state disk ${uuid} ${which} share`;
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
