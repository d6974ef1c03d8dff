import { randomBytes } from 'node:crypto';
import { Secret } from '../../internal/secret/index.ts';
import { SHARE_BYTES, type DiskShares, type RecordContent } from '../../internal/statedisk/index.ts';
import { readPcrs, sealProved, TpmError, unsealProved } from '../../internal/tpm/index.ts';
import type { DiskPorts, DiskSettings } from './disk-settings.ts';
import { DiskError } from './errors.ts';

/** What a record has of the shares. */
export type DiskSeals = Pick<RecordContent, 'nodeShare' | 'clusterShare' | 'registers'>;

/** The codes of a TPM that has the sealed share, but does not release it. */
const LOCKED: ReadonlySet<string> = new Set([
  'tpm-policy-failed',
  'tpm-credential-rejected',
  'tpm-seal-unproved',
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

/** Unseals one share. @throws DiskError `disk-locked`: the details name the registers that changed */
export async function unsealShare(
  { tpm }: DiskPorts,
  { pcrs }: DiskSettings,
  options: { readonly which: keyof DiskShares; readonly content: RecordContent },
  signal: AbortSignal,
): Promise<Secret<Uint8Array>> {
  const { which, content } = options;
  const sealed = which === 'node' ? content.nodeShare : content.clusterShare;
  const purpose = { purpose: purposeOf(which, content.uuid), pcrs };
  return tpm.use(signal, async (connection) => {
    try {
      return await unsealProved(connection, sealed, purpose, signal);
    } catch (cause) {
      if (!(cause instanceof TpmError) || !LOCKED.has(cause.code)) throw cause;
      const now = await readPcrs(connection, { hash: 'sha256', pcrs }, signal);
      const changed = pcrs.filter((pcr) => hex(now.get(pcr)) !== hex(content.registers.get(pcr)));
      const which_ =
        changed.length === 0
          ? 'no register changed'
          : `changed: ${changed.map((pcr) => `pcr${pcr}`).join(', ')}`;
      const details = Object.fromEntries(
        changed.map((pcr) => [
          `pcr${pcr}`,
          { sealed: hex(content.registers.get(pcr)), now: hex(now.get(pcr)) },
        ]),
      );
      throw new DiskError('disk-locked', `unsealing the ${which} share of the state disk: ${which_}`, {
        cause,
        details,
      });
    }
  });
}

function purposeOf(which: keyof DiskShares, uuid: string): string {
  return `state disk ${uuid} ${which} share`;
}

function hex(bytes: Uint8Array | undefined): string {
  return Buffer.from(bytes ?? []).toString('hex');
}
