import { AttestationError, machineIdentityText, type Verdict } from '../../internal/attestation/index.ts';
import { type CodedError, describeError, findCoded, type ExitName } from '../../internal/errors/index.ts';
import type { CommandContext } from '../app/command.ts';
import { EXPLAINED_ERRORS } from '../app/explain.ts';
import type { Explanation } from './explanation.ts';
import { readInputs, type ExplainedVariant, type ExplainInputs, type ExplainOptions } from './inputs.ts';
import { explainSnp, explainTdx } from './judge-processor.ts';
import { explainTpm } from './judge-tpm.ts';
import { renderExplanation } from './render-explanation.ts';

const JUDGES: Readonly<Record<ExplainedVariant, (inputs: ExplainInputs) => Verdict | Promise<Verdict>>> = {
  tpm: explainTpm,
  'sev-snp': explainSnp,
  tdx: explainTdx,
};

/** Decodes and judges evidence offline and says field by field what was found. Refused evidence is exit 4. */
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

export async function explain(inputs: ExplainInputs): Promise<Explanation> {
  try {
    return accepted(await JUDGES[inputs.variant](inputs), inputs);
  } catch (error) {
    const coded = findCoded(error);
    // What exits otherwise is the operator's mistake or ours and no verdict.
    if (coded === undefined || coded.exit !== 'refused') throw error;
    return refused(coded, inputs);
  }
}

function accepted(verdict: Verdict, inputs: ExplainInputs): Explanation {
  const { checks, measurements, tcb = {}, machineIdentity, claims, warnings } = verdict;
  const hex = [...measurements].map(([name, value]) => [name, Buffer.from(value).toString('hex')] as const);
  return {
    ...frame(inputs),
    verdict: 'accepted',
    checks,
    measurements: Object.fromEntries(hex),
    tcb,
    machineIdentity: `${machineIdentityText(machineIdentity)} (${machineIdentity.proof})`,
    claims,
    warnings: [...warnings, ...missing(inputs)],
  };
}

function refused(error: CodedError, inputs: ExplainInputs): Explanation {
  const { expected, actual } = error.details;
  const explained = EXPLAINED_ERRORS[error.code];
  return {
    ...frame(inputs),
    verdict: 'refused',
    code: error.code,
    reason: describeError(error),
    ...(explained === undefined ? {} : { meaning: explained.meaning }),
    fix: error.fix,
    ...(typeof expected === 'string' ? { expected } : {}),
    ...(typeof actual === 'string' ? { actual } : {}),
    checks: error instanceof AttestationError ? error.checks : [{ name: error.code, outcome: 'fail' }],
    measurements: {},
    tcb: {},
    claims: {},
    warnings: [],
  };
}

function frame({ variant, policy, nowMs }: ExplainInputs): Pick<Explanation, 'variant' | 'policy' | 'at'> {
  return {
    variant,
    policy: policy === 'not-judged' ? null : policy.version,
    at: new Date(nowMs).toISOString(),
  };
}

/** Of what kind of key the signature is. A key in software makes the same signature as a TPM. */
const GENUINE: Readonly<Record<ExplainedVariant, string>> = {
  tpm: 'the signature is by the key that came with the evidence; nothing here says that a TPM holds that key.',
  'sev-snp': 'the evidence is genuine.',
  tdx: 'the evidence is genuine.',
};

/** What `accepted` does not mean here. */
function missing({ variant, policy, binding }: ExplainInputs): string[] {
  return [
    ...(policy === 'not-judged'
      ? [`No policy was given: ${GENUINE[variant]} Nothing in it was compared with reference values.`]
      : []),
    ...(binding === 'not-judged' ? ['No binding was given: the evidence may be a replay.'] : []),
  ];
}
