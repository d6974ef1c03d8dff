import { inspect } from 'node:util';
import type { z } from 'zod';
import { EXIT_CODES, type ExitName } from './exit-codes.ts';
import { describeJsonError } from './json-error.ts';
import { describeOpensslError } from './openssl-error.ts';
import { describeShape } from './shape-problem.ts';

/** The party that can fix the error: the operator, the other end of a connection, or this machine. */
export type Fault = 'operator' | 'peer' | 'system';

/** The description of an error code, which `cluster help errors CODE` prints. */
export interface ErrorSpec {
  readonly fault: Fault;
  /** The exit code of a command that ends with this error. */
  readonly exit: ExitName;
  /** Whether repeating the same call may succeed. */
  readonly retryable: boolean;
  /** What happened, in one or two sentences that apply to every occurrence. */
  readonly meaning: string;
  /** What the operator should do: an imperative sentence. */
  readonly fix: string;
}

/** The codes of one directory. */
export type ErrorCatalogue<Code extends string> = Readonly<Record<Code, ErrorSpec>>;

/** Declares the codes of a directory. Codes are kebab-case and unique over the whole project. */
export function defineErrors<const Code extends string>(specs: ErrorCatalogue<Code>): ErrorCatalogue<Code> {
  return Object.freeze(specs);
}

/** Describes an error by its meaning and its fix. */
type DescribeError = (meaning: string, fix: string) => ErrorSpec;

function specsOf(fault: Fault, retryable: boolean): Readonly<Record<ExitName, DescribeError>> {
  const exits = Object.keys(EXIT_CODES) as ExitName[];
  const entries = exits.map((exit): [ExitName, DescribeError] => [
    exit,
    (meaning, fix) => ({ fault, exit, retryable, meaning, fix }),
  ]);
  return Object.fromEntries(entries) as Record<ExitName, DescribeError>;
}

/** Errors that recur when the call is repeated, by fault and exit code: `fault.operator.usage(meaning, fix)`. */
export const fault = {
  operator: specsOf('operator', false),
  peer: specsOf('peer', false),
  system: specsOf('system', false),
};

/** Errors that may not recur when the call is repeated: `retryable.peer.unreachable(meaning, fix)`. */
export const retryable = {
  operator: specsOf('operator', true),
  peer: specsOf('peer', true),
  system: specsOf('system', true),
};

/** The data that an occurrence adds to its code. */
export interface CodedErrorOptions {
  readonly cause?: unknown;
  /** Details for programs: plain JSON values, never secrets. */
  readonly details?: Readonly<Record<string, unknown>>;
  /** Overrides the value of the catalogue for this occurrence. */
  readonly retryable?: boolean;
  readonly fix?: string;
}

/**
 * The base class of all errors with a code. `message` says what failed, with the offending value. A gerund
 * phrase before it is the context: `joining cluster: dialing 192.0.2.8:9090: timed out`. Each directory
 * derives one class with `errorClass`.
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

/** The result of `errorClass`: a class whose errors have the codes of one catalogue. */
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

/** Deeper cause chains are cut off: they are cycles or not useful. */
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
  // A connection attempt that fails on every address of a host name gives an AggregateError without a message.
  if (error.message === '' && 'errors' in error && Array.isArray(error.errors)) {
    return [...new Set(error.errors.map(describeError))].join('; ');
  }
  if ('issues' in error && /^\$?ZodError$/.test(error.name)) return describeShape(error as z.core.$ZodError);
  if (error.message === '') return error.name;
  return describeJsonError(error) ?? describeOpensslError(error.message) ?? error.message;
}

/** The first error with a code in a cause chain. */
export function findCoded(error: unknown): CodedError | undefined {
  for (const each of errorChain(error)) if (each instanceof CodedError) return each;
  return undefined;
}

/** Whether an error, or one of its causes, is only the consequence of the signal's abort. */
export function isAbort(error: unknown, signal: AbortSignal): boolean {
  if (!signal.aborted) return false;
  for (const each of errorChain(error)) {
    if (each === signal.reason || (Error.isError(each) && each.name === 'AbortError')) return true;
  }
  return false;
}
