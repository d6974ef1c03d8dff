import { isIP } from 'node:net';
import type { z } from 'zod';
import { describeShape } from '../../internal/errors/index.ts';
import { DNS_LABEL } from '../../internal/endpoint/index.ts';
import { isLabelValue } from '../../internal/role/index.ts';
import { CloudHintsError } from './errors.ts';

/**
 * The hints of a cloud about a machine. All of them are untrusted: an attacker in the link-local network of the machine
 * can answer instead of the metadata service.
 */
export interface CloudHints {
  /** A DNS label. */
  readonly name?: string | undefined;
  /** The machine's own address in its network, not a public one that the cloud translates. */
  readonly address?: string | undefined;
  /** Values of the labels topology.kubernetes.io/region and topology.kubernetes.io/zone. */
  readonly region?: string | undefined;
  readonly zone?: string | undefined;
}

/** The values in an answer, before they are checked. '' means that the cloud has none. */
export type RawHints = Readonly<Record<'name' | 'address' | 'region' | 'zone', string | undefined>>;

/** DNS names have at most 253 characters. */
const MAX_CHARS = 253;

/**
 * Checks the values of a cloud. A name is shortened to its first label, in lower case. A name that is no DNS label
 * gives no hint, because such names are legal in a cloud. Any other malformed value makes the whole answer unusable.
 * @throws CloudHintsError `cloudhints-answer-invalid`
 */
export function parseHints(raw: RawHints): CloudHints {
  for (const [key, value = ''] of Object.entries(raw))
    if (value.length > MAX_CHARS) throw invalid(`${key} has more than ${MAX_CHARS} characters`);
  const { name = '', address = '', region = '', zone = '' } = raw;
  const label = name.toLowerCase().split('.')[0] ?? '';
  if (address !== '' && isIP(address) === 0) throw invalid(`${JSON.stringify(address)} is not an IP address`);
  for (const value of [region, zone])
    if (!isLabelValue(value)) throw invalid(`${JSON.stringify(value)} cannot be the value of a label`);
  return definedIn({
    name: DNS_LABEL.test(label) ? label : undefined,
    address: address || undefined,
    region: region || undefined,
    zone: zone || undefined,
  });
}

/** Reads an answer that is one text. @throws CloudHintsError `cloudhints-answer-invalid` */
export function parseText(bytes: Uint8Array | undefined): string | undefined {
  return bytes === undefined ? undefined : decode(bytes).trim();
}

/**
 * Reads an answer in JSON. Members that are not in the schema are ignored.
 * @throws CloudHintsError `cloudhints-answer-invalid`
 */
export function parseJson<T extends z.ZodType>(bytes: Uint8Array | undefined, schema: T): z.output<T> {
  if (bytes === undefined) throw invalid('no answer');
  const parsed = schema.safeParse(jsonIn(decode(bytes)));
  if (parsed.success) return parsed.data;
  throw invalid(describeShape(parsed.error));
}

/** Reports an answer of the metadata service that cannot be used. */
export function invalid(why: string): CloudHintsError {
  return new CloudHintsError('cloudhints-answer-invalid', `reading the metadata of the cloud: ${why}`);
}

function jsonIn(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw invalid('not JSON');
  }
}

function decode(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw invalid('not UTF-8');
  }
}

function definedIn(hints: CloudHints): CloudHints {
  return Object.fromEntries(Object.entries(hints).filter(([, value]) => value !== undefined));
}
