import {
  AttestationError,
  machineIdentityText,
  type DecodedEvidence,
  type MeasuredVariant,
  type Verdict,
} from '../../internal/attestation/index.ts';
import { type CodedError, describeError, findCoded, type ExitName } from '../../internal/errors/index.ts';
import type { CommandContext } from '../app/command.ts';
import { meaningOfCode } from '../app/explain.ts';
import { decodeUnverified } from './decode-evidence.ts';
import { readInputs, type ExplainInputs, type ExplainOptions } from './inputs.ts';
import { explainSnp, explainTdx } from './judge-processor.ts';
import { explainComposite } from './judge-composite.ts';
import { explainTpm } from './judge-tpm.ts';
import { renderExplanation, type Explanation } from './render-explanation.ts';

const JUDGES: Readonly<Record<MeasuredVariant, (inputs: ExplainInputs) => Verdict | Promise<Verdict>>> = {
  tpm: explainTpm,
  'sev-snp': explainSnp,
  tdx: explainTdx,
  'snp+tpm': (inputs) => explainComposite('snp+tpm', explainSnp, inputs),
  'tdx+tpm': (inputs) => explainComposite('tdx+tpm', explainTdx, inputs),
};

/** `cluster attest explain`: verifies evidence offline and shows each check. Exits `refused` for refused evidence. */
export async function runAttestExplain(context: CommandContext, options: ExplainOptions): Promise<ExitName> {
  const { ports, paths, host } = context;
  const inputs = await readInputs(options, {
    files: ports.files,
    base: paths.workspace,
    nowMs: ports.clock.nowMs(),
  });
  const explanation = await explain(inputs);
  const { verdict, code = null, checks } = explanation;
  host.result(explanation, () => renderExplanation(explanation), { verdict, code, checks });
  return explanation.verdict === 'accepted' ? 'ok' : 'refused';
}

/** Verifies evidence; a refusal is an explanation too. @throws errors other than refusals */
async function explain(inputs: ExplainInputs): Promise<Explanation> {
  try {
    return accepted(await JUDGES[inputs.variant](inputs), inputs);
  } catch (error) {
    const coded = findCoded(error);
    // Every other exit code means a mistake of the operator or a bug, not a verdict.
    if (coded === undefined || coded.exit !== 'refused') throw error;
    return refused(coded, inputs);
  }
}

function accepted(verdict: Verdict, inputs: ExplainInputs): Explanation {
  const { checks, measurements, tcb = {}, machineIdentity, claims, warnings } = verdict;
  return {
    ...frame(inputs),
    verdict: 'accepted',
    checks,
    measurements: inHex(measurements),
    tcb,
    machineIdentity: `${machineIdentityText(machineIdentity)} (${machineIdentity.proof})`,
    claims,
    warnings: [...warnings, ...missing(inputs)],
  };
}

function refused(error: CodedError, inputs: ExplainInputs): Explanation {
  const { expected, actual } = error.details;
  const decoded = decodeUnverified(inputs);
  const meaning = meaningOfCode(error.code);
  return {
    ...frame(inputs),
    verdict: 'refused',
    code: error.code,
    reason: describeError(error),
    ...(meaning === undefined ? {} : { meaning }),
    fix: error.fix,
    ...(typeof expected === 'string' ? { expected } : {}),
    ...(typeof actual === 'string' ? { actual } : {}),
    checks: error instanceof AttestationError ? error.checks : [{ name: error.code, outcome: 'fail' }],
    measurements: {},
    tcb: {},
    claims: {},
    ...(decoded && {
      unverified: { ...decoded, tcb: decoded.tcb ?? {}, measurements: inHex(decoded.measurements) },
    }),
    warnings: [],
  };
}

function inHex(measurements: DecodedEvidence['measurements']): Readonly<Record<string, string>> {
  return Object.fromEntries(
    [...measurements].map(([name, value]) => [name, Buffer.from(value).toString('hex')] as const),
  );
}

function frame({
  variant,
  name,
  policy,
  nowMs,
}: ExplainInputs): Pick<Explanation, 'variant' | 'evidence' | 'policy' | 'at'> {
  return {
    variant,
    evidence: name,
    policy: policy === 'not-judged' ? null : policy.version,
    at: new Date(nowMs).toISOString(),
  };
}

/** What an accepted signature means without a policy. A software key signs like a TPM. */
const GENUINE: Readonly<Record<MeasuredVariant, string>> = {
  tpm: 'the signature is valid for the key that came with the evidence, but nothing proves that a TPM holds this key.',
  'sev-snp': 'the evidence is signed by genuine hardware.',
  tdx: 'the evidence is signed by genuine hardware.',
  'snp+tpm': 'the report is signed by genuine hardware.',
  'tdx+tpm': 'the report is signed by genuine hardware.',
};

/** Warnings about what the result `accepted` does not cover. */
function missing({ variant, policy, binding }: ExplainInputs): string[] {
  return [
    ...(policy === 'not-judged'
      ? [`No policy given: ${GENUINE[variant]} Measurements were not compared with reference values.`]
      : []),
    ...(binding === 'not-judged' ? ['No binding given: the evidence may be a replay.'] : []),
  ];
}
