import type { TpmConnection } from '../connection.ts';
import { WireWriter } from '../wire.ts';

/** The first handle of each range that TPM_CAP_HANDLES lists (Part 2, 7.4): loaded objects and sessions. */
export const TRANSIENT_HANDLES = 0x80000000;
/** See `TRANSIENT_HANDLES`. */
export const LOADED_SESSIONS = 0x02000000;

const CAP_HANDLES = 0x00000001;
const SU_CLEAR = 0x0000;
const PAGE = 64;
const MAX_HANDLES = 1024;

/** TPM2_Startup, which must be the first command after power-on. */
export function startup(tpm: TpmConnection, signal: AbortSignal): Promise<void> {
  return tpm.run({ name: 'startup', parameters: new WireWriter().u16(SU_CLEAR).finish() }, signal);
}

/** TPM2_Shutdown: makes the shutdown orderly, so that `safe` is 1 in quotes after the next start. */
export function shutdown(tpm: TpmConnection, signal: AbortSignal): Promise<void> {
  return tpm.run({ name: 'shutdown', parameters: new WireWriter().u16(SU_CLEAR).finish() }, signal);
}

/** Lists all handles of a range (`TRANSIENT_HANDLES`, `LOADED_SESSIONS`), page by page. */
export async function listHandles(
  tpm: TpmConnection,
  range: number,
  signal: AbortSignal,
): Promise<readonly number[]> {
  const found: number[] = [];
  for (let from = range; ;) {
    const { more, page } = await listPage(tpm, from, signal);
    found.push(...page.filter((handle) => (handle & 0xff000000) === (range & 0xff000000)));
    const last = page.at(-1);
    // Handles must increase: otherwise a faulty TPM could make this loop endless.
    if (!more || last === undefined || last < from || found.length > MAX_HANDLES) return found;
    from = last + 1;
  }
}

function listPage(tpm: TpmConnection, from: number, signal: AbortSignal) {
  const parameters = new WireWriter().u32(CAP_HANDLES).u32(from).u32(PAGE).finish();
  return tpm.ask({ name: 'getCapability', parameters }, signal, (reader) => {
    const more = reader.u8('moreData') === 1;
    reader.expect(reader.u32('capability'), CAP_HANDLES, 'capability');
    const count = reader.u32('count');
    if (count > PAGE) throw reader.fail('count', `at most ${PAGE}`, `${count}`);
    return { more, page: Array.from({ length: count }, () => reader.u32('handle')) };
  });
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
    const part = await tpm.ask({ name: 'getRandom', parameters }, signal, (reader) => {
      const bytes = reader.sized('random bytes', 32);
      if (bytes.length === 0) throw reader.fail('random bytes', 'at least one', 'none');
      return bytes;
    });
    parts.push(part);
    left -= part.length;
  }
  return new Uint8Array(Buffer.concat(parts));
}
