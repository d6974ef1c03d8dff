import { AttestationError, type Verdict } from '../../internal/attestation/index.ts';
import {
  collateralFrom,
  manufacturerOf,
  type CollateralItem,
} from '../../internal/attestation/collateral/index.ts';
import { amdTrust, verifySnpEvidence } from '../../internal/attestation/snp/index.ts';
import {
  decodeTdxEvidence,
  encodeTdxEvidence,
  intelTrust,
  prepareCollateral,
  verifyTdxEvidence,
} from '../../internal/attestation/tdx/index.ts';
import { CertificateCache, parseCertificate, parseCrl } from '../../internal/attestation/x509/index.ts';
import { AttestError } from './errors.ts';
import { documentsIn, type ExplainInputs, type NamedFile } from './inputs.ts';
import { isEventLog } from './tpm-files.ts';

const KINDS: Readonly<Record<CollateralItem['kind'], string>> = {
  certificate: 'certificate',
  crl: 'CRL',
  'tcb-info': 'TCB info',
  'qe-identity': 'QE identity',
};

/** A document, and the file that it is in. */
interface NamedItem {
  readonly item: CollateralItem;
  readonly file: string;
}

/** The program recognizes endorsements and collateral by their content, not by the option that named the file. */
function allItems({
  endorsements,
  collateral,
}: Pick<ExplainInputs, 'endorsements' | 'collateral'>): NamedItem[] {
  return [...endorsements, ...collateral].flatMap((file) =>
    documentsIn(file).map((item) => ({ item, file: file.name })),
  );
}

/** Verifies an SEV-SNP report. @throws AttestationError, AttestError `attest-collateral-unknown` */
export function explainSnp(inputs: ExplainInputs): Verdict {
  const items = allItems(inputs);
  const { snp } = collateralFrom(items.map(({ item }) => item));
  const trust = amdTrust();
  refuseUnknownDocuments(items, trust);
  const verdict = verifySnpEvidence(inputs.evidence(), {
    trust,
    cache: new CertificateCache(),
    collateral: snp,
    nowMs: inputs.nowMs,
    policy: inputs.policy,
    binding: inputs.binding,
  });
  if (snp.crls.length > 0) return verdict;
  const warning = 'No CRL given: revocation of AMD certificates was not checked.';
  return { ...verdict, warnings: [...verdict.warnings, warning] };
}

/**
 * A document of an unknown issuer is not ignored: it may be a CRL in which an attacker altered the issuer, so that
 * nobody finds the CRL.
 */
function refuseUnknownDocuments(
  items: readonly NamedItem[],
  { authorities }: ReturnType<typeof amdTrust>,
): void {
  const subjects = authorities.map((der) => parseCertificate(der).subject.der);
  for (const { item, file } of items) {
    const isKnown =
      'der' in item &&
      manufacturerOf(item) === 'amd' &&
      (item.kind !== 'crl' ||
        subjects.some((der) => Buffer.compare(der, parseCrl(item.der).issuer.der) === 0));
    if (isKnown) continue;
    throw new AttestError(
      'attest-collateral-unknown',
      `${file}: this ${KINDS[item.kind]} was not issued by AMD`,
    );
  }
}

/**
 * Verifies a TDX quote, and a CCEL event log beside it. Without collateral only the quote's own certificate chain is verified, not its TCB level; any policy
 * then refuses it. @throws AttestationError
 */
export function explainTdx(inputs: ExplainInputs): Verdict {
  const cache = new CertificateCache();
  const logs = inputs.endorsements.filter(({ bytes }) => isEventLog(bytes));
  const endorsements = inputs.endorsements.filter(({ bytes }) => !isEventLog(bytes));
  const items = allItems({ ...inputs, endorsements });
  const { tdx } = collateralFrom(items.map(({ item }) => item));
  const evidence = withEventLog(inputs.evidence(), logs);
  const verdict = namingLog(logs[0], () =>
    verifyTdxEvidence(evidence, {
      trust: intelTrust(),
      cache,
      collateral: items.length === 0 ? undefined : prepareCollateral(tdx, cache),
      nowMs: inputs.nowMs,
      policy: inputs.policy,
      binding: inputs.binding,
    }),
  );
  const warning = 'No collateral given: TCB level and revocation were not checked.';
  return items.length === 0 ? { ...verdict, warnings: [...verdict.warnings, warning] } : verdict;
}

/** Names the file of the event log in refusals of the log. */
function namingLog(log: NamedFile | undefined, verify: () => Verdict): Verdict {
  try {
    return verify();
  } catch (error) {
    const isOfLog = error instanceof AttestationError && error.checks.at(-1)?.name === 'event-log';
    throw isOfLog && log !== undefined ? error.within(`reading ${log.name}`) : error;
  }
}

/** A quote and the event log that was given beside it. @throws AttestError `attest-endorsement-unknown` for a second log */
function withEventLog(evidence: Uint8Array, [eventLog, ...more]: readonly NamedFile[]): Uint8Array {
  if (eventLog === undefined) return evidence;
  const { quote, eventLog: own } = decodeTdxEvidence(evidence);
  if (own === undefined && more.length === 0) return encodeTdxEvidence({ quote, eventLog: eventLog.bytes });
  throw new AttestError(
    'attest-endorsement-unknown',
    `${(more[0] ?? eventLog).name}: a TDX quote can have only one event log`,
  );
}
