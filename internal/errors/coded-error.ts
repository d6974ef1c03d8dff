import { inspect } from 'node:util';
import type { ExitName } from './exit-codes.ts';

/** Who can do something about it: the operator, the other end of a connection, or this machine. */
export type Fault = 'operator' | 'peer' | 'system';

/** What is said about one error code, wherever it is thrown. `cluster help errors CODE` prints it. */
export interface ErrorSpec {
  readonly fault: Fault;
  /** The exit code of a command that ends with this error. */
  readonly exit: ExitName;
  /** Whether the same call may be repeated as it is with a chance of success. */
  readonly retryable: boolean;
  /** What has happened, in one or two sentences that do not depend on the occurrence. */
  readonly meaning: string;
  /** What the operator does about it. */
  readonly fix: string;
}

export type ErrorCatalogue<Code extends string> = Readonly<Record<Code, ErrorSpec>>;

/** Declares the codes of one directory. Codes are kebab-case and unique over the whole project. */
export function defineErrors<const Code extends string>(specs: ErrorCatalogue<Code>): ErrorCatalogue<Code> {
  return Object.freeze(specs);
}

export interface CodedErrorOptions {
  readonly cause?: unknown;
  /** Facts for programs: plain JSON values, never secrets. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** Overrides the catalogue where an occurrence knows better. */
  readonly retryable?: boolean;
  readonly fix?: string;
}

/**
 * The one error shape. `message` says what was being done, in the gerund, with the offending value;
 * the cause says why. Directories derive one class with their own catalogue.
 */
export class CodedError<Code extends string = string> extends Error {
  readonly code: Code;
  readonly fault: Fault;
  readonly retryable: boolean;
  readonly exit: ExitName;
  readonly fix: string;
  readonly details: Readonly<Record<string, unknown>>;

  constructor(catalogue: ErrorCatalogue<Code>, code: Code, message: string, options: CodedErrorOptions = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause });
    const spec = catalogue[code];
    this.name = new.target.name;
    this.code = code;
    this.fault = spec.fault;
    this.exit = spec.exit;
    this.retryable = options.retryable ?? spec.retryable;
    this.fix = options.fix ?? spec.fix;
    this.details = options.details ?? {};
  }
}

/** What `errorClass` gives: a class whose errors carry the codes of one catalogue. */
export type CodedErrorClass<Code extends string> = new (
  code: Code,
  message: string,
  options?: CodedErrorOptions,
) => CodedError<Code>;

/**
 * The base of a directory's error class: `export class FileError extends errorClass(fileErrors) {}`. The errors are named
 * after the class that extends it.
 */
export function errorClass<Code extends string>(catalogue: ErrorCatalogue<Code>): CodedErrorClass<Code> {
  return class extends CodedError<Code> {
    constructor(code: Code, message: string, options?: CodedErrorOptions) {
      super(catalogue, code, message, options);
    }
  };
}

/** Causes deeper than this are a cycle or noise. */
const MAX_DEPTH = 16;

/** An error and its causes, outermost first. Errors of other realms (workers, test runners) count as errors. */
export function* errorChain(error: unknown): Generator {
  for (let at = error, depth = 0; at !== undefined && at !== null && depth < MAX_DEPTH; depth++) {
    yield at;
    at = Error.isError(at) ? at.cause : undefined;
  }
}

/** The whole chain on one line, outermost first: `joining cluster: dialing 192.0.2.8:9090: timed out`. */
export function describeError(error: unknown): string {
  const parts: string[] = [];
  for (const each of errorChain(error)) {
    const text = describeOne(each);
    if (text !== '' && !parts.some((part) => part.endsWith(text))) parts.push(text);
  }
  return parts.join(': ');
}

function describeOne(error: unknown): string {
  if (!Error.isError(error))
    return typeof error === 'string' ? error : inspect(error, { breakLength: Infinity });
  // A connection that fails on every address of a name is an AggregateError without a message.
  if (error.message === '' && 'errors' in error && Array.isArray(error.errors)) {
    return [...new Set(error.errors.map(describeError))].join('; ');
  }
  return error.message === '' ? error.name : error.message;
}

/** The first coded error of a chain, if there is one. */
export function findCoded(error: unknown): CodedError | undefined {
  for (const each of errorChain(error)) if (each instanceof CodedError) return each;
  return undefined;
}

/** Whether an error, bare or as a cause, only says that its signal fired. Abort is not failure. */
export function isAbort(error: unknown, signal: AbortSignal): boolean {
  if (!signal.aborted) return false;
  for (const each of errorChain(error)) {
    if (each === signal.reason || (Error.isError(each) && each.name === 'AbortError')) return true;
  }
  return false;
}
