import { cpuUsage, env } from 'node:process';
import { CodedError } from '../errors/index.ts';

export interface FuzzTarget {
  /** Well-formed inputs to start from. */
  readonly seeds: readonly Uint8Array[];
  readonly parse: (input: Uint8Array) => unknown;
  /** Prefixes of the error codes with which the parser may refuse. Any other error is a defect. */
  readonly codes: readonly string[];
}

/** A fuzz target with a name. Files `*.fuzz.ts` beside a parser export them as `targets`. */
export interface NamedFuzzTarget extends FuzzTarget {
  /** The name of the parsed format, e.g. `tpm/quote`. */
  readonly name: string;
}

export interface FuzzLimits {
  /**
   * The seed; default: FUZZ_SEED, or a random one. The same seed gives the same inputs in the same order.
   */
  readonly seed?: number;
  /** The duration; default: FUZZ_SECONDS, or half a second. */
  readonly seconds?: number;
}

export interface FuzzResult {
  readonly seed: number;
  readonly cases: number;
  readonly accepted: number;
  readonly refused: number;
}

const DEFAULT_SECONDS = 0.5;
/**
 * Limit of the processor time of one case, which only a parser that hangs exceeds. Wall-clock time would count the pauses of a busy
 * machine too.
 */
const MAX_CASE_MS = 10_000;
/** The minimum number of cases on any machine, because fewer cases would prove nothing. */
const MIN_CASES = 200;

/**
 * Feeds a parser mutated inputs. Fails on the first input for which the parser neither returns a value nor
 * throws one of its own coded errors, or takes too long. The message has the seed and the input, so that
 * the failure can be repeated.
 */
export function fuzz(target: FuzzTarget, limits: FuzzLimits = {}): FuzzResult {
  const seed = limits.seed ?? Number(env['FUZZ_SEED'] ?? Math.floor(Math.random() * 2 ** 31));
  const seconds = limits.seconds ?? Number(env['FUZZ_SECONDS'] ?? DEFAULT_SECONDS);
  const next = xorshift(seed);
  const untilMs = performance.now() + seconds * 1000;
  let [cases, accepted] = [0, 0];
  do {
    const input = mutate(target.seeds, next);
    cases++;
    if (isAccepted(target, input, seed)) accepted++;
  } while (cases < MIN_CASES || performance.now() < untilMs);
  return { seed, cases, accepted, refused: cases - accepted };
}

function isAccepted(target: FuzzTarget, input: Uint8Array, seed: number): boolean {
  const before = cpuUsage();
  const accepted = attempt(target, input, seed);
  const { user, system } = cpuUsage(before);
  const tookMs = (user + system) / 1_000;
  if (tookMs > MAX_CASE_MS) {
    throw new Error(`the parser took ${Math.round(tookMs)} ms: ${describeCase(input, seed)}`);
  }
  return accepted;
}

function attempt(target: FuzzTarget, input: Uint8Array, seed: number): boolean {
  try {
    target.parse(input);
    return true;
  } catch (cause) {
    const code = cause instanceof CodedError ? String(cause.code) : '';
    if (target.codes.some((each) => code.startsWith(each))) return false;
    throw new Error(`the parser threw something else: ${describeCase(input, seed)}`, { cause });
  }
}

function describeCase(input: Uint8Array, seed: number): string {
  return `FUZZ_SEED=${seed}, input ${Buffer.from(input).toString('hex').slice(0, 4000)}`;
}

/** Numbers at the limits of sizes, counts and indices. */
const EDGES = [0, 1, 2, 0x7f, 0x80, 0xff, 0x100, 0x7fff, 0x8000, 0xffff, 0x7fffffff, 0x80000000, 0xffffffff];

function mutate(seeds: readonly Uint8Array[], next: () => number): Uint8Array {
  const pick = (): Uint8Array => seeds[next() % seeds.length] ?? new Uint8Array();
  let bytes = Buffer.from(pick());
  for (let left = 1 + (next() % 4); left > 0; left--) bytes = mutateOnce(bytes, pick(), next);
  return new Uint8Array(bytes);
}

function mutateOnce(bytes: Buffer<ArrayBuffer>, other: Uint8Array, next: () => number): Buffer<ArrayBuffer> {
  const at = bytes.length === 0 ? 0 : next() % bytes.length;
  const edge = EDGES[next() % EDGES.length] ?? 0;
  switch (next() % 8) {
    case 0: // flip one bit
      if (bytes.length > 0) bytes.writeUInt8(bytes.readUInt8(at) ^ (1 << (next() % 8)), at);
      return bytes;
    case 1:
      return bytes.subarray(0, at);
    case 2: // append
      return Buffer.concat([bytes, Buffer.alloc(next() % 64, next() % 256)]);
    case 3: // cut out
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at + (next() % 32))]);
    case 4: // double a part
      return Buffer.concat([bytes.subarray(0, at), bytes.subarray(at >> 1)]);
    case 5:
      return Buffer.concat([bytes.subarray(0, at), other.subarray(at)]);
    default: // an edge as 1, 2 or 4 bytes, in either order
      return writeEdge(bytes, at, edge, next() % 5);
  }
}

function writeEdge(bytes: Buffer<ArrayBuffer>, at: number, edge: number, form: number): Buffer<ArrayBuffer> {
  if (form < 1 && bytes.length > at) bytes.writeUInt8(edge & 0xff, at);
  else if (form < 3 && bytes.length >= at + 4) {
    if (form === 1) bytes.writeUInt32BE(edge, at);
    else bytes.writeUInt32LE(edge, at);
  } else if (bytes.length >= at + 2) {
    if (form === 3) bytes.writeUInt16BE(edge & 0xffff, at);
    else bytes.writeUInt16LE(edge & 0xffff, at);
  }
  return bytes;
}

/** A fast random number generator that returns the same numbers for the same seed. */
function xorshift(seed: number): () => number {
  let state = (seed >>> 0) | 1;
  return () => {
    state ^= state << 13;
    state >>>= 0;
    state ^= state >>> 17;
    state ^= state << 5;
    state >>>= 0;
    return state;
  };
}
