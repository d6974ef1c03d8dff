import type { DecodedEvidence, MeasuredVariant } from '../../internal/attestation/index.ts';
import type { CollateralItem } from '../../internal/attestation/collateral/index.ts';
import { decodeComposite } from '../../internal/attestation/policy/index.ts';
import { describeSnpEvidence } from '../../internal/attestation/snp/index.ts';
import { describeTdxEvidence } from '../../internal/attestation/tdx/index.ts';
import {
  decodeTpmEvidence,
  nameOfBytes,
  quoteClaims,
  tpmMeasurements,
} from '../../internal/attestation/tpm/index.ts';
import { CodedError } from '../../internal/errors/index.ts';
import { parseQuoteAttest } from '../../internal/tpm/index.ts';
import { documentsIn, type ExplainInputs } from './inputs.ts';
import { isRawTpmQuote, readRawTpmQuote } from './tpm-files.ts';

const DECODERS: Readonly<
  Record<MeasuredVariant, (evidence: Uint8Array, inputs: ExplainInputs) => DecodedEvidence>
> = {
  tpm: decodeTpm,
  'sev-snp': decodeSnp,
  tdx: describeTdxEvidence,
  'snp+tpm': (evidence, inputs) => decodeParts(evidence, (report) => decodeSnp(report, inputs)),
  'tdx+tpm': (evidence) => decodeParts(evidence, describeTdxEvidence),
};

/**
 * Decodes refused evidence, so that an operator sees which machine and which TCB were refused. Nothing of it is verified.
 * undefined if it cannot be decoded.
 */
export function decodeUnverified(inputs: ExplainInputs): DecodedEvidence | undefined {
  return unlessRefused(() => DECODERS[inputs.variant](inputs.evidence(), inputs));
}

function decodeSnp(evidence: Uint8Array, { endorsements, collateral }: ExplainInputs): DecodedEvidence {
  const items = [...endorsements, ...collateral].flatMap(
    (file) => unlessRefused(() => documentsIn(file)) ?? [],
  );
  return describeSnpEvidence(evidence, items.flatMap(certificateIn));
}

function certificateIn(item: CollateralItem): readonly Uint8Array[] {
  return item.kind === 'certificate' ? [item.der] : [];
}

function decodeTpm(
  evidence: Uint8Array,
  { endorsements }: Pick<ExplainInputs, 'endorsements'>,
): DecodedEvidence {
  if (!isRawTpmQuote(evidence)) return describeQuote(decodeTpmEvidence(evidence));
  const quote = unlessRefused(() => readRawTpmQuote(evidence, endorsements));
  return describeQuote(quote ?? { attest: evidence, pcrValues: new Map() });
}

/** @throws TpmError */
function describeQuote(quote: {
  readonly attest: Uint8Array;
  readonly pcrValues: ReadonlyMap<number, Uint8Array>;
  readonly attestationKey?: unknown;
}): DecodedEvidence {
  const statement = parseQuoteAttest(quote.attest);
  const { attestationKey } = quote;
  const own = {
    ...(attestationKey instanceof Uint8Array && { attestationKey: nameOfBytes(attestationKey) }),
    pcrs: statement.selection.pcrs.join(','),
    extraData: Buffer.from(statement.extraData).toString('hex'),
    qualifiedSigner: Buffer.from(statement.qualifiedSigner).toString('hex'),
  };
  return {
    measurements: tpmMeasurements(quote.pcrValues),
    claims: quoteClaims({ statement }, own, undefined),
  };
}

/** Both parts, with the names of claims that a verdict has. */
function decodeParts(
  evidence: Uint8Array,
  decodeReport: (report: Uint8Array) => DecodedEvidence,
): DecodedEvidence {
  const { report, quote } = decodeComposite(evidence);
  const processor = decodeReport(report);
  const tpm = decodeTpm(quote, { endorsements: [] });
  const prefixed = Object.entries(tpm.claims).map(([name, claim]) => [`tpm.${name}`, claim] as const);
  return {
    ...processor,
    measurements: new Map([...processor.measurements, ...tpm.measurements]),
    claims: { ...processor.claims, ...Object.fromEntries(prefixed) },
  };
}

/** undefined for a part that cannot be decoded; the refusal itself says why. */
function unlessRefused<T>(decode: () => T): T | undefined {
  try {
    return decode();
  } catch (error) {
    if (error instanceof CodedError) return undefined;
    throw error;
  }
}
