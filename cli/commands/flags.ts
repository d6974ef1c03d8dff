import { InvalidArgumentError, Option, type Command } from 'commander';
import { formatDuration, parseDuration } from '../../internal/clock/index.ts';
import type { OwnerSignature } from '../app/command.ts';
import { DNS_LABEL, parseEndpoint, PORTS } from '../../internal/endpoint/index.ts';

/** Collects the values of a flag that may be repeated. */
export function collect(value: string, before: readonly string[] = []): readonly string[] {
  return [...before, value];
}

/** Parser of a flag whose value is a whole number in a range. */
export function wholeNumber(least: number, most: number): (text: string) => number {
  return (text) => {
    const count = /^[0-9]{1,9}$/.test(text) ? Number(text) : -1;
    if (count < least || count > most) throw new InvalidArgumentError(`Must be ${least} to ${most}.`);
    return count;
  };
}

/** Parser of a flag whose value is a list of some of these words, separated by commas. */
export function listOf<Word extends string>(words: readonly Word[]): (text: string) => readonly Word[] {
  return (text) => {
    const named = [...new Set(text.split(','))];
    const known = words.filter((word) => named.includes(word));
    if (known.length === named.length) return known;
    throw new InvalidArgumentError(`Must be a list of ${words.join(', ')}, separated by commas.`);
  };
}

/** Parser of a flag whose value is a file descriptor: 0, or 3 to 1023. */
export function fileDescriptor(text: string): number {
  const descriptor = /^[0-9]{1,4}$/.test(text) ? Number(text) : -1;
  if (descriptor === 0 || (descriptor >= 3 && descriptor <= 1023)) return descriptor;
  throw new InvalidArgumentError('Must be 0, or 3 to 1023.');
}

/** A flag whose value is a duration: 90s, 10m, 1h, 30d; its value is in ms. */
export function durationOption(flags: string, description: string): Option {
  return new Option(flags, description).argParser(durationMs);
}

/** A flag whose value is a time from now on, as a duration: 30d or +30d; its value is in ms. */
export function fromNowOption(flags: string, description: string): Option {
  return new Option(flags, description).argParser((text) => durationMs(text.replace(/^\+/, '')));
}

function durationMs(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined) throw new InvalidArgumentError('Must be a duration such as 90s, 10m, 1h or 30d.');
  return ms;
}

/** `--watch`: shows the result again whenever it changes. */
export const WATCH_FLAG = ['--watch', 'show the result again every 2s, until interrupted'] as const;

/** Parser of a flag whose value is the endorsement key of a TPM. */
export function tpmIdentity(text: string): string {
  if (/^tpm-ek:[0-9a-f]{64}$/.test(text)) return text;
  throw new InvalidArgumentError('Must be tpm-ek: and 64 lower-case hex digits.');
}

/** Parser of a flag whose value is the address of a machine: HOST or HOST:PORT. */
export function machineAddress(text: string): string {
  if (parseEndpoint(text, PORTS.init) !== undefined) return text;
  throw new InvalidArgumentError('Must be HOST or HOST:PORT.');
}

/** Like `machineAddress`, for a flag that may be repeated. */
export function collectAddress(text: string, before: readonly string[] = []): readonly string[] {
  return collect(machineAddress(text), before);
}

/** Parser of a flag whose value is the fingerprint of a machine. */
export function fingerprintValue(text: string): string {
  if (/^sha256:[0-9a-f]{64}$/.test(text)) return text;
  throw new InvalidArgumentError(
    'Must be sha256: and 64 lower-case hex digits, as the console of the machine shows it.',
  );
}

/** Parser of a flag whose value is the URL of a web server. */
export function webUrl(text: string): string {
  if (URL.canParse(text) && /^https?:\/\//.test(text)) return text;
  throw new InvalidArgumentError('Must be a URL such as https://mirror.example.com.');
}

/** Parser of a flag whose value is the URL of an API server: no user, no path. */
export function apiServerUrl(text: string): string {
  if (URL.canParse(text) && /^https:\/\/[^/?#@]+\/?$/.test(text)) return text.replace(/\/$/, '');
  throw new InvalidArgumentError('Must be https://HOST:PORT.');
}

/** Parser of a flag whose value is the name of a node. */
export function nodeName(text: string): string {
  if (DNS_LABEL.test(text)) return text;
  throw new InvalidArgumentError('Must be at most 63 lower-case letters, digits and dashes.');
}

/** `--timeout <duration>`. */
export function timeoutOption(description: string, defaultMs: number): Option {
  return durationOption('--timeout <duration>', description).default(defaultMs, formatDuration(defaultMs));
}

/** Flags added by `withConfirmFlags`. */
export interface ConfirmFlags {
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

/** Help text of `--yes` in commands that need no confirmation without a terminal. */
export const SKIP_PROMPT = 'skip the confirmation prompt';
const REQUIRED_PROMPT = `${SKIP_PROMPT}; required without a terminal`;

/** Adds the flags of commands that delete something. @param yes help text of `--yes` */
export function withConfirmFlags(command: Command, yes = REQUIRED_PROMPT): Command {
  return command
    .option('--dry-run', 'show what would change without changing anything')
    .option('-y, --yes', yes);
}

/** The flags of `withConfirmFlags` in the form that use cases take. */
export function confirmFrom({ dryRun = false, yes = false }: ConfirmFlags) {
  return { dryRun, yes };
}

/** Flags added by `withSignatureFlags`. */
export interface SignatureFlags {
  readonly requestSignature?: string;
  readonly signed?: string;
}

/** Adds the flags by which an operator without an owner key gets an owner's signature. */
export function withSignatureFlags(command: Command): Command {
  return command
    .addOption(
      new Option(
        '--request-signature <file>',
        'without an owner key: change nothing, write the request for a signature to this new file',
      ).conflicts('signed'),
    )
    .option('--signed <file>', 'without an owner key: use the file that `cluster sign` has written');
}

/** The flags of `withSignatureFlags` as a part of the context. */
export function signatureFrom({ requestSignature, signed }: SignatureFlags): {
  readonly ownerSignature: OwnerSignature | undefined;
} {
  if (requestSignature !== undefined) return { ownerSignature: { kind: 'request', path: requestSignature } };
  return { ownerSignature: signed === undefined ? undefined : { kind: 'signed', path: signed } };
}
