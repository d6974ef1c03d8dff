import { randomBytes } from 'node:crypto';
import { Backoff, type Clock } from '../../clock/index.ts';
import { FileError, type KernelFilePort } from '../../file/index.ts';
import { TsmError } from './errors.ts';

export type TsmProvider = 'sev_guest' | 'tdx_guest';

export interface TsmPorts {
  readonly files: KernelFilePort;
  readonly clock: Clock;
}

export interface TsmRequest {
  readonly provider: TsmProvider;
  /** 64 bytes that the report shall carry. */
  readonly inblob: Uint8Array;
  readonly signal: AbortSignal;
}

export interface TsmReport {
  readonly outblob: Uint8Array;
  /** What the host adds: for SNP its certificate table; empty when there is none. */
  readonly auxblob: Uint8Array;
}

export const TSM_REPORT_PATH = '/sys/kernel/config/tsm/report';

const MAX_OUTBLOB_BYTES = 32 << 10;
const MAX_AUXBLOB_BYTES = 64 << 10;
const ATTEMPTS = 8;
const PAUSES = { firstMs: 50, factor: 2, longestMs: 50 * 2 ** ATTEMPTS };
/** The host is busy with another quote, or a signal interrupted the wait for the firmware. */
const TRANSIENT = new Set(['EBUSY', 'EINTR', 'EAGAIN']);

/**
 * Asks the kernel for a report (Documentation/ABI/testing/configfs-tsm-report). An object of our own is created, filled
 * and removed again. `generation` counts the writes to it: when it is not what we wrote, somebody else wrote too, and
 * the report may carry another binding, so it is thrown away.
 */
export async function requestTsmReport(ports: TsmPorts, request: TsmRequest): Promise<TsmReport> {
  const backoff = new Backoff(PAUSES);
  for (let attempt = 1; ; attempt++) {
    request.signal.throwIfAborted();
    try {
      return await askOnce(ports.files, request);
    } catch (error) {
      if (!isTransient(error)) throw asTsmError(error);
      if (attempt === ATTEMPTS) {
        throw new TsmError('tsm-busy', `asking for a report: busy ${ATTEMPTS} times`, { cause: error });
      }
    }
    await ports.clock.sleep(backoff.nextMs(), request.signal);
  }
}

async function askOnce(files: KernelFilePort, request: TsmRequest): Promise<TsmReport> {
  const entry = `${TSM_REPORT_PATH}/cluster-${randomBytes(8).toString('hex')}`;
  await files.makeDirectory(entry);
  try {
    return await fillEntry(files, entry, request);
  } finally {
    await files.removeDirectory(entry);
  }
}

async function fillEntry(files: KernelFilePort, entry: string, request: TsmRequest): Promise<TsmReport> {
  const provider = await readText(files, `${entry}/provider`);
  if (provider !== request.provider) {
    throw new TsmError(
      'tsm-provider',
      `asking for a report: the kernel’s provider is ${JSON.stringify(provider)}`,
      {
        details: { expected: request.provider, actual: provider },
      },
    );
  }
  const before = await readGeneration(files, entry);
  await files.writeAttribute(`${entry}/inblob`, request.inblob);
  const outblob = await files.readAttribute(`${entry}/outblob`, MAX_OUTBLOB_BYTES);
  const auxblob = await readOptional(files, `${entry}/auxblob`, MAX_AUXBLOB_BYTES);
  const after = await readGeneration(files, entry);
  if (after !== before + 1n) {
    throw new TsmError('tsm-refused', `asking for a report: generation ${after}, ${before + 1n} expected`, {
      details: { reason: 'somebody else wrote to our request' },
    });
  }
  return { outblob, auxblob };
}

async function readGeneration(files: KernelFilePort, entry: string): Promise<bigint> {
  const text = await readText(files, `${entry}/generation`);
  if (!/^\d{1,20}$/.test(text))
    throw new TsmError('tsm-refused', `reading a generation: ${JSON.stringify(text)}`);
  return BigInt(text);
}

async function readText(files: KernelFilePort, path: string): Promise<string> {
  return Buffer.from(await files.readAttribute(path, 4096))
    .toString('latin1')
    .trimEnd();
}

/** TDX has no auxblob at all; SNP has an empty one when the host gives no certificates. */
async function readOptional(files: KernelFilePort, path: string, maxBytes: number): Promise<Uint8Array> {
  try {
    return await files.readAttribute(path, maxBytes);
  } catch (error) {
    if (errnoOf(error) === 'ENOENT') return new Uint8Array();
    throw error;
  }
}

function isTransient(error: unknown): boolean {
  return TRANSIENT.has(errnoOf(error) ?? '');
}

function asTsmError(error: unknown): unknown {
  const errno = errnoOf(error);
  if (errno === undefined) return error;
  const isAbsent = errno === 'ENOENT' || errno === 'ENXIO';
  return new TsmError(isAbsent ? 'tsm-unavailable' : 'tsm-refused', 'asking for a report', { cause: error });
}

function errnoOf(error: unknown): string | undefined {
  return error instanceof FileError ? String(error.details['errno']) : undefined;
}
