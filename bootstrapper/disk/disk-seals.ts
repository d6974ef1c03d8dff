import { randomBytes } from 'node:crypto';
import { Secret } from '../../internal/secret/index.ts';
import {
  approvalCounter,
  approvalReference,
  parseApproval,
  isSealedShare,
  SHARE_BYTES,
  StateDiskError,
  type DiskShares,
  type RecordContent,
  type VerifiedApproval,
} from '../../internal/statedisk/index.ts';
import {
  generationOfSeal,
  isApprovable,
  lastValueOfSeal,
  readPcrs,
  sealApprovable,
  sealProved,
  testApproval,
  TpmError,
  unsealApprovable,
  unsealProved,
  type NvCounter,
  type PolicyAuthority,
  type TpmConnection,
} from '../../internal/tpm/index.ts';
import { keyCounter } from './disk-counter.ts';
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

/** Who may approve other registers for a disk; undefined if the provisioning names nobody. */
export function authorityOf(
  { approvalKey: point }: DiskSettings,
  { uuid }: Pick<RecordContent, 'uuid'>,
): PolicyAuthority | undefined {
  return point === undefined ? undefined : { point, reference: approvalReference(uuid) };
}

/** The approval in a record, if it is signed with the approval key of this machine. */
export function approvalOf(
  { approvalKey }: DiskSettings,
  { approval }: Pick<RecordContent, 'approval'>,
): VerifiedApproval | undefined {
  if (approvalKey === undefined || approval === undefined) return undefined;
  try {
    return parseApproval(approval, approvalKey);
  } catch (error) {
    if (error instanceof StateDiskError) return undefined; // the key of the machine was replaced
    throw error;
  }
}

/** Which disk shares are sealed for, and whether the approvals and sealed shares before end with the next increments of their counters (`endEarlierSeals()`). */
interface SealOf {
  readonly uuid: string;
  readonly generation: 'current' | 'next';
}

/** Seals both shares to the TPM and the current PCRs. With an approval key, an owner can approve other values later. */
export function sealShares(
  ports: DiskPorts,
  settings: DiskSettings,
  { shares, ...of }: SealOf & { readonly shares: DiskShares },
  signal: AbortSignal,
): Promise<DiskSeals> {
  const sealed = async (seal: Seal) => ({
    nodeShare: await seal('node', shares.node),
    clusterShare: await seal('cluster', shares.cluster),
  });
  return sealWith(ports, settings, { ...of, sealed }, signal);
}

/** Seals the node share alone: the machine keeps no cluster share. */
export function sealNodeShare(
  ports: DiskPorts,
  settings: DiskSettings,
  { node, ...of }: SealOf & { readonly node: Secret<Uint8Array> },
  signal: AbortSignal,
): Promise<Omit<DiskSeals, 'clusterShare'>> {
  const sealed = async (seal: Seal) => ({ nodeShare: await seal('node', node) });
  return sealWith(ports, settings, { ...of, sealed }, signal);
}

type Seal = (which: keyof DiskShares, share: Secret<Uint8Array>) => Promise<Uint8Array>;

function sealWith<T>(
  { tpm }: DiskPorts,
  settings: DiskSettings,
  { uuid, generation: which, sealed }: SealOf & { readonly sealed: (seal: Seal) => Promise<T> },
  signal: AbortSignal,
): Promise<T & Pick<DiskSeals, 'registers'>> {
  const { pcrs } = settings;
  const authority = authorityOf(settings, { uuid });
  return tpm.use(signal, async (connection) => {
    const valueOf = (counter: NvCounter): Promise<bigint> => valueFor(connection, { counter, which }, signal);
    const generation = authority && (await valueOf(approvalCounter));
    const expiry = { counter: keyCounter, last: await valueOf(keyCounter) };
    const seal: Seal = (name, share) => {
      const purpose = { purpose: purposeOf(name, uuid), pcrs, expiry };
      if (authority === undefined || generation === undefined)
        return sealProved(connection, share, purpose, signal);
      const approvable = { ...purpose, authority, counter: approvalCounter, generation };
      return sealApprovable(connection, share, approvable, signal);
    };
    return {
      ...(await sealed(seal)),
      registers: await readPcrs(connection, { hash: 'sha256', pcrs }, signal),
    };
  });
}

async function valueFor(
  connection: TpmConnection,
  { counter, which }: { readonly counter: NvCounter; readonly which: 'current' | 'next' },
  signal: AbortSignal,
): Promise<bigint> {
  await counter.start(connection, signal);
  const current = (await counter.read(connection, signal)) ?? 0n;
  return which === 'next' ? current + 1n : current;
}

/**
 * Increments the counters of approvals and of keys to the values of a verified record, which are ahead by one after a new approval, and after new
 * shares: all earlier approvals, or sealed shares, end.
 */
export async function endEarlierSeals(
  { tpm }: Pick<DiskPorts, 'tpm'>,
  settings: DiskSettings,
  content: RecordContent,
  signal: AbortSignal,
): Promise<void> {
  for (const [counter, value] of countersOf(settings, content))
    await tpm.use(signal, async (connection) => {
      const now = await counter.read(connection, signal);
      if (now !== undefined && now < value) await counter.increment(connection, signal);
    });
}

/** Whether the counters are behind a record: an agent was killed before `endEarlierSeals()`. */
export async function hasEarlierSeals(
  { tpm }: Pick<DiskPorts, 'tpm'>,
  settings: DiskSettings,
  content: RecordContent,
  signal: AbortSignal,
): Promise<boolean> {
  return tpm.use(signal, async (connection) => {
    for (const [counter, value] of countersOf(settings, content))
      if (((await counter.read(connection, signal)) ?? value) < value) return true;
    return false;
  });
}

/** The counters that end earlier approvals and sealed shares, with the values that they have once they have ended them. */
function countersOf(
  settings: DiskSettings,
  content: RecordContent,
): readonly (readonly [NvCounter, bigint])[] {
  const { nodeShare } = content;
  const last = lastValueOfSeal(nodeShare);
  return [
    ...(isApprovable(nodeShare)
      ? [[approvalCounter, approvalOf(settings, content)?.generation ?? generationOfSeal(nodeShare)] as const]
      : []),
    // Seals of earlier releases have no end.
    ...(last === undefined ? [] : [[keyCounter, last] as const]),
  ];
}

/** Tests the approval in a record that was not written yet. @throws TpmError */
export async function testApprovalOf(
  { tpm }: Pick<DiskPorts, 'tpm'>,
  settings: DiskSettings,
  content: RecordContent,
  signal: AbortSignal,
): Promise<void> {
  const [authority, approval] = [authorityOf(settings, content), approvalOf(settings, content)];
  if (authority === undefined || approval === undefined) throw new TypeError('the record has no approval');
  await tpm.use(signal, async (connection) => {
    for (const which of sharesIn(content)) {
      const options = { ...approvablePurpose(which, settings, content), authority };
      const sealed = sealedShare(which, content);
      await testApproval(connection, sealed, { ...options, approval: approval.forTpm }, signal);
    }
  });
}

/** The shares that the machine keeps, sealed to its TPM. */
export function sharesIn({
  clusterShare,
}: Pick<RecordContent, 'clusterShare'>): readonly (keyof DiskShares)[] {
  return isSealedShare(clusterShare) ? ['node', 'cluster'] : ['node'];
}

/** A TPM register (PCR, SHA-256) to whose value the shares are sealed. */
export interface SealedRegister {
  readonly pcr: number;
  /** The value in the record of the disk. It is proved only after the share was unsealed. */
  readonly sealed: Uint8Array;
  readonly now: Uint8Array;
}

/** Reads the registers to which the shares are sealed, with their current values. Of several approved ones: those most like the current ones. */
export function readSealedRegisters(
  { tpm }: Pick<DiskPorts, 'tpm'>,
  settings: DiskSettings,
  content: Pick<RecordContent, 'registers' | 'approval'>,
  signal: AbortSignal,
): Promise<readonly SealedRegister[]> {
  const approved = approvalOf(settings, content)?.software;
  return tpm.use(signal, async (connection) => {
    const { pcrs } = settings;
    const now = await readPcrs(connection, { hash: 'sha256', pcrs }, signal);
    const none = new Uint8Array();
    const compared = (approved ?? [content.registers]).map((registers) =>
      pcrs.map((pcr) => ({ pcr, sealed: registers.get(pcr) ?? none, now: now.get(pcr) ?? none })),
    );
    return compared.reduce((best, each) => (changedIn(each).length < changedIn(best).length ? each : best));
  });
}

function changedIn(registers: readonly SealedRegister[]): readonly SealedRegister[] {
  return registers.filter((register) => hex(register.now) !== hex(register.sealed));
}

/** Unseals one share. @throws DiskError `disk-locked`: the details name the registers that changed */
export async function unsealShare(
  ports: Pick<DiskPorts, 'tpm'>,
  settings: DiskSettings,
  options: { readonly which: keyof DiskShares; readonly content: RecordContent },
  signal: AbortSignal,
): Promise<Secret<Uint8Array>> {
  const { which, content } = options;
  const sealed = sealedShare(which, content);
  const purpose = approvablePurpose(which, settings, content);
  const approval = approvalOf(settings, content)?.forTpm;
  try {
    return await ports.tpm.use(signal, (connection) =>
      isApprovable(sealed)
        ? unsealApprovable(connection, sealed, { ...purpose, approval }, signal)
        : unsealProved(connection, sealed, purpose, signal),
    );
  } catch (cause) {
    if (!(cause instanceof TpmError) || !LOCKED.has(cause.code)) throw cause;
    const registers = await readSealedRegisters(ports, settings, content, signal);
    throw lockedError(which, registers, cause);
  }
}

/** Unseals the shares that the machine keeps, from a record that was not written yet. @throws TypeError if the TPM has sealed other ones */
export async function testSeals(
  ports: Pick<DiskPorts, 'tpm'>,
  settings: DiskSettings,
  { content, shares }: { readonly content: RecordContent; readonly shares: DiskShares },
  signal: AbortSignal,
): Promise<void> {
  for (const which of sharesIn(content)) {
    const unsealed = await unsealShare(ports, settings, { which, content }, signal);
    if (Buffer.compare(unsealed.reveal(), shares[which].reveal()) !== 0)
      throw new TypeError(`the TPM has sealed another ${which} share`);
  }
}

function lockedError(
  which: keyof DiskShares,
  registers: readonly SealedRegister[],
  cause: TpmError,
): DiskError {
  const changed = changedIn(registers);
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

function sealedShare(which: keyof DiskShares, { nodeShare, clusterShare }: RecordContent): Uint8Array {
  if (which === 'node') return nodeShare;
  if (!isSealedShare(clusterShare)) throw new TypeError('the machine does not keep its cluster share');
  return clusterShare;
}

function approvablePurpose(
  which: keyof DiskShares,
  settings: DiskSettings,
  content: Pick<RecordContent, 'uuid'>,
) {
  const purpose = { purpose: purposeOf(which, content.uuid), pcrs: settings.pcrs, expiryCounter: keyCounter };
  return { ...purpose, authority: authorityOf(settings, content), counter: approvalCounter };
}

function purposeOf(which: keyof DiskShares, uuid: string): string {
  return `state disk ${uuid} ${which} share`;
}

function hex(bytes: Uint8Array): string {
  return Buffer.from(bytes).toString('hex');
}
