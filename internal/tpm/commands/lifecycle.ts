import type { TpmConnection } from '../connection.ts';
import { WireWriter } from '../wire.ts';

/** First handles of the ranges that TPM_CAP_HANDLES lists (Part 2, 7.4). */
export const TRANSIENT_HANDLES = 0x80000000;
/** See `TRANSIENT_HANDLES`. */
export const LOADED_SESSIONS = 0x02000000;

const CAP_HANDLES = 0x00000001;
const CAP_TPM_PROPERTIES = 0x00000006;
const SU_CLEAR = 0x0000;
const PAGE = 64;
const MAX_HANDLES = 1024;

/** TPM2_Startup, which must be the first command after power-on. */
export async function startup(tpm: TpmConnection, signal: AbortSignal): Promise<void> {
  const parameters = new WireWriter().u16(SU_CLEAR).finish();
  (await tpm.execute({ name: 'startup', parameters }, signal)).parameters.end();
}

/** TPM2_Shutdown: makes the shutdown orderly, so that `safe` is 1 in quotes after the next start. */
export async function shutdown(tpm: TpmConnection, signal: AbortSignal): Promise<void> {
  const parameters = new WireWriter().u16(SU_CLEAR).finish();
  (await tpm.execute({ name: 'shutdown', parameters }, signal)).parameters.end();
}

/** Lists all handles of a range (`TRANSIENT_HANDLES`, `LOADED_SESSIONS`), page by page. */
export async function listHandles(
  tpm: TpmConnection,
  range: number,
  signal: AbortSignal,
): Promise<readonly number[]> {
  const found: number[] = [];
  for (let from = range; ;) {
    const reader = await getCapability(tpm, { capability: CAP_HANDLES, from, count: PAGE }, signal);
    const count = reader.u32('count');
    if (count > PAGE) throw reader.fail('count', `at most ${PAGE}`, `${count}`);
    const page = Array.from({ length: count }, () => reader.u32('handle'));
    reader.end();
    found.push(...page.filter((handle) => (handle & 0xff000000) === (range & 0xff000000)));
    const last = page.at(-1);
    // Handles must increase: otherwise a faulty TPM could make this loop endless.
    if (!reader.more || last === undefined || last < from || found.length > MAX_HANDLES) return found;
    from = last + 1;
  }
}

/** Reads a TPM_PT property, e.g. the manufacturer; undefined when the TPM does not have it. */
export async function readProperty(
  tpm: TpmConnection,
  property: number,
  signal: AbortSignal,
): Promise<number | undefined> {
  const reader = await getCapability(
    tpm,
    { capability: CAP_TPM_PROPERTIES, from: property, count: 1 },
    signal,
  );
  const count = reader.u32('count');
  if (count > 1) throw reader.fail('count', 'at most 1', `${count}`);
  const entry = count === 0 ? undefined : { tag: reader.u32('property'), value: reader.u32('value') };
  reader.end();
  return entry?.tag === property ? entry.value : undefined;
}

async function getCapability(
  tpm: TpmConnection,
  asked: { readonly capability: number; readonly from: number; readonly count: number },
  signal: AbortSignal,
) {
  const { capability, from, count } = asked;
  const parameters = new WireWriter().u32(capability).u32(from).u32(count).finish();
  const { parameters: reader } = await tpm.execute({ name: 'getCapability', parameters }, signal);
  const more = reader.u8('moreData') === 1;
  reader.expect(reader.u32('capability'), capability, 'capability');
  return Object.assign(reader, { more });
}

/** TPM2_GetRandom, repeated: each command returns at most one digest of random bytes. */
export async function getRandom(
  tpm: TpmConnection,
  sizeBytes: number,
  signal: AbortSignal,
): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for (let left = sizeBytes; left > 0;) {
    const parameters = new WireWriter().u16(Math.min(left, 32)).finish();
    const { parameters: reader } = await tpm.execute({ name: 'getRandom', parameters }, signal);
    const part = reader.sized('random bytes', 32);
    reader.end();
    if (part.length === 0) throw reader.fail('random bytes', 'at least one', 'none');
    parts.push(part);
    left -= part.length;
  }
  return new Uint8Array(Buffer.concat(parts));
}
