import type { Issuer, SessionIssuer, ValidationContext, Validator, Variant } from '../attestation/index.ts';
import { AtlsError } from './errors.ts';
import { FORMAT_NONE, MAX_FORMATS } from './wire.ts';

type NonEmpty<T> = readonly [T, ...T[]];

/** The policy and collateral that validators verify evidence against. */
export type EvidenceRules = Pick<ValidationContext, 'policy' | 'collateral'>;

interface Accepts {
  /** Attestation variants that the peer may show, best first. */
  readonly accepts: NonEmpty<Validator>;
  /** Called for each connection, so that a changed policy applies immediately. */
  readonly rules: () => EvidenceRules;
}

interface Shows {
  /** Attestation variants that this end can show. */
  readonly shows: NonEmpty<Issuer | SessionIssuer>;
}

/** Both ends attest themselves. */
export interface MutualTrust extends Shows, Accepts {
  readonly trust: 'mutual';
}

/** Only the peer attests itself. The peer must be configured with `one-way-show`. */
export interface OneWayAcceptTrust extends Accepts {
  readonly trust: 'one-way-accept';
}

/** Only this end attests itself, to any peer. The peer must be configured with `one-way-accept`. */
export interface OneWayShowTrust extends Shows {
  readonly trust: 'one-way-show';
}

/**
 * The evidence that one end shows and accepts. Trust in one direction must be configured explicitly; an omission never
 * causes it.
 */
export type Trust = MutualTrust | OneWayAcceptTrust | OneWayShowTrust;

/** Rules that refuse every machine, for ends that accept only owner keys, which need no rules. */
export const REJECT_ALL_RULES: EvidenceRules = {
  policy: { version: 'none', registers: new Map(), machines: new Set() },
  collateral: {},
};

/** The issuers and validators of a `Trust`, by their format numbers on the wire. */
export interface Formats {
  readonly issuers: ReadonlyMap<number, Issuer | SessionIssuer>;
  readonly validators: ReadonlyMap<number, Validator>;
  readonly shows: readonly number[];
  readonly accepts: readonly number[];
}

/** The format number of each attestation variant on the wire. A number never changes its meaning. */
export const FORMAT_OF_VARIANT: Readonly<Record<Variant, number>> = {
  'owner-key': 1,
  tpm: 2,
  'sev-snp': 3,
  tdx: 4,
  'snp+tpm': 5,
  'tdx+tpm': 6,
  'machine-key': 7,
};

/**
 * Converts the configured trust. Throws AtlsError `atls-config` for a configuration that trusts more than its mode
 * allows. Also checks what the types forbid, because the value may come from a configuration file.
 */
export function formatsOf(trust: Trust): Formats {
  switch (trust?.trust) {
    case 'mutual':
      return formats(byFormat('shows', trust.shows), acceptedBy(trust));
    case 'one-way-accept':
      return formats(new Map(), acceptedBy(trust));
    case 'one-way-show':
      return formats(byFormat('shows', trust.shows), new Map());
    default:
      throw refused(`unknown trust mode ${JSON.stringify(trust)}`);
  }
}

function acceptedBy(trust: Accepts): ReadonlyMap<number, Validator> {
  if (typeof trust.rules !== 'function') throw refused('validators need a function that returns their rules');
  return byFormat('accepts', trust.accepts);
}

function formats(
  issuers: ReadonlyMap<number, Issuer | SessionIssuer>,
  validators: ReadonlyMap<number, Validator>,
): Formats {
  const numbers = (each: ReadonlyMap<number, unknown>): readonly number[] =>
    each.size === 0 ? [FORMAT_NONE] : [...each.keys()];
  return { issuers, validators, shows: numbers(issuers), accepts: numbers(validators) };
}

function byFormat<T extends { readonly variant: Variant }>(
  what: string,
  members: readonly T[] | undefined,
): ReadonlyMap<number, T> {
  const found = new Map<number, T>();
  for (const member of members ?? []) {
    if (!Object.hasOwn(FORMAT_OF_VARIANT, member.variant)) {
      throw refused(`the option ${what} names the unknown variant ${JSON.stringify(member.variant)}`);
    }
    const format = FORMAT_OF_VARIANT[member.variant];
    if (found.has(format)) throw refused(`the option ${what} names ${member.variant} twice`);
    found.set(format, member);
  }
  if (found.size === 0 || found.size > MAX_FORMATS)
    throw refused(`the option ${what} names ${found.size} variants, 1 to ${MAX_FORMATS} expected`);
  return found;
}

function refused(why: string): AtlsError {
  return new AtlsError('atls-config', `configuring attested TLS: ${why}`);
}
