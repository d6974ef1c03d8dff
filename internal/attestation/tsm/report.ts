import { randomBytes } from 'node:crypto';
import { Backoff, type Clock } from '../../clock/index.ts';
import { FileError, type KernelFilePort } from '../../file/index.ts';
import { TsmError } from './errors.ts';

/** The kernel's name of the technology: SEV-SNP or TDX. */
type TsmProvider = 'sev_guest' | 'tdx_guest';

/** The files and the clock that `requestTsmReport()` uses; tests replace them. */
export interface TsmPorts {
  readonly files: KernelFilePort;
  readonly clock: Clock;
}

/** A request for a report. */
interface TsmRequest {
  readonly provider: TsmProvider;
  /** 64 bytes that the report will contain: the binding. */
  readonly inblob: Uint8Array;
  readonly signal: AbortSignal;
}

/** A report of the kernel. */
interface TsmReport {
  readonly outblob: Uint8Array;
  /** Data of the host: for SNP its certificate table; empty if there is none. */
  readonly auxblob: Uint8Array;
}

/** The configfs directory in which a report is requested by creating a directory. */
export const TSM_REPORT_PATH = '/sys/kernel/config/tsm/report';

const MAX_OUTBLOB_BYTES = 32 << 10;
const MAX_AUXBLOB_BYTES = 64 << 10;
const ATTEMPTS = 8;
const PAUSES = { firstMs: 50, factor: 2, longestMs: 50 * 2 ** ATTEMPTS };
/** The host is busy with another quote, or a signal interrupted the wait for the firmware. */
const TRANSIENT = new Set(['EBUSY', 'EINTR', 'EAGAIN']);

/**
 * Requests a report from the kernel (Documentation/ABI/testing/configfs-tsm-report) through a directory that is removed again.
 * Its attribute `generation` counts writes. If it changed unexpectedly, another process wrote to the directory, and the report,
 * which may have another binding, is discarded.
 * @throws TsmError
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
        throw new TsmError('tsm-busy', `requesting a report: busy in ${ATTEMPTS} attempts`, { cause: error });
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
      `requesting a report: the kernel provides ${JSON.stringify(provider)}, ${request.provider} expected`,
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
    throw new TsmError('tsm-refused', `requesting a report: generation ${after}, ${before + 1n} expected`, {
      details: { reason: 'another process wrote to the request' },
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

/** TDX has no auxblob; SNP has an empty one when the host provides no certificates. */
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
  return new TsmError(isAbsent ? 'tsm-unavailable' : 'tsm-refused', 'requesting a report', { cause: error });
}

function errnoOf(error: unknown): string | undefined {
  return error instanceof FileError ? String(error.details['errno']) : undefined;
}
