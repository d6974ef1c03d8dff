import {
  canonicalSignature,
  encodeSignature,
  leafHash,
  LOCK_COUNTER,
  lockCounterExtraData,
  nameOf,
  nvNameOf,
  parsePublic,
  parseSignature,
  quoteExtraData,
  rootFromProof,
  WireWriter,
  type NvPublic,
  type SignedAttest,
} from '../../tpm/index.ts';
import { encodeTpmEvidence } from '../../attestation/tpm/index.ts';
import {
  createSoftKey,
  encodeStatement,
  quoteBody,
  signStatement,
  type SoftKey,
  type Statement,
} from './fake-tpm.ts';

/** The parts of TPM evidence. A test can make one part wrong while all others stay right. */
export interface ForgedEvidence {
  readonly binding: Uint8Array;
  readonly key?: SoftKey;
  /** Sent instead of the key's own public area. */
  readonly publicArea?: Uint8Array;
  readonly pcrValues?: ReadonlyMap<number, Uint8Array>;
  /** Sent instead of the quoted PCR values. */
  readonly shownValues?: ReadonlyMap<number, Uint8Array>;
  readonly statement?: Partial<Statement>;
  /** Sent instead of the signed statement. */
  readonly alterAttest?: (attest: Uint8Array) => Uint8Array;
  readonly alterSignature?: (signature: Uint8Array) => Uint8Array;
  readonly eventLog?: Uint8Array;
  /** A certificate of the lock counter that is sent with the quote; a test can make each part wrong. */
  readonly lockCounter?: ForgedCounter;
  readonly proof?: { readonly size: number; readonly index: number; readonly path: readonly Uint8Array[] };
}

/** A certificate of the lock counter; correct by default. */
export interface ForgedCounter {
  readonly value?: bigint;
  readonly index?: NvPublic;
  readonly offset?: number;
  readonly contents?: Uint8Array;
  readonly statement?: Partial<Statement>;
  readonly by?: SoftKey;
  /** Whether the quote announces a lock counter certificate. */
  readonly isAnnounced?: boolean;
  /** The certificate is left out, whatever the quote announces. */
  readonly isMissing?: boolean;
}

const LONE = { size: 1, index: 0, path: [] };

/** Signs a quote in software, which is correct by default, and wraps it like an issuer. */
export function forgeEvidence(forged: ForgedEvidence): Uint8Array {
  const key = forged.key ?? createSoftKey();
  const values =
    forged.pcrValues ?? new Map([0, 4, 15].map((pcr) => [pcr, new Uint8Array(32).fill(pcr + 1)]));
  const attachment = forged.eventLog ?? new Uint8Array();
  const proof = forged.proof ?? LONE;
  const root = rootFromProof(leafHash(forged.binding), proof);
  const hasLockCounter = forged.lockCounter?.isAnnounced ?? forged.lockCounter !== undefined;
  const extraData = quoteExtraData({ root, size: proof.size, attachment, hasLockCounter });
  const attest = encodeStatement(key, {
    extraData,
    body: quoteBody({ hash: 'sha256', pcrs: [...values.keys()] }, values),
    ...forged.statement,
  });
  const shown = forged.alterAttest?.(attest) ?? attest;
  const canonical = encodeSignature(canonicalSignature(parseSignature(signStatement(key, attest)), 'p256'));
  const { lockCounter } = forged;
  const counter =
    lockCounter === undefined || lockCounter.isMissing === true
      ? {}
      : { lockCounter: certifyCounter(key, extraData, lockCounter) };
  return encodeTpmEvidence({
    ...counter,
    attestationKey: forged.publicArea ?? key.publicArea,
    attest: shown,
    signature: forged.alterSignature?.(canonical) ?? canonical,
    pcrValues: forged.shownValues ?? values,
    attachment,
    ...proof,
  });
}

function certifyCounter(key: SoftKey, quoted: Uint8Array, forged: ForgedCounter): SignedAttest {
  const { value = 1n, index = LOCK_COUNTER, offset = 0, by = key } = forged;
  const contents = forged.contents ?? new WireWriter().u64(value).finish();
  const body = new WireWriter().sized(nvNameOf(index)).u16(offset).sized(contents).finish();
  const attest = encodeStatement(by, {
    type: 0x8014,
    extraData: lockCounterExtraData(quoted),
    body,
    ...forged.statement,
  });
  const signature = encodeSignature(canonicalSignature(parseSignature(signStatement(by, attest)), 'p256'));
  return { attest, signature };
}

/** Hex of the key's TPM Name, as endorsements list it. */
export function nameHexOf(key: SoftKey): string {
  return Buffer.from(nameOf(parsePublic(key.publicArea))).toString('hex');
}
