import { findTpmProblem } from '../../internal/preflight/index.ts';
import type { Provisioning } from '../../internal/config/index.ts';
import type { Clock } from '../../internal/clock/index.ts';
import type { Logger } from '../../internal/logging/index.ts';
import { TpmError } from './errors.ts';

/** A driver may be loaded after the agent was started. */
const PATIENCE_MS = 30_000;
const PAUSE_MS = 1_000;

/**
 * A machine that is nobody's yet and whose TPM does not answer can prove nothing, and nobody would learn why. One that is bound
 * to a cluster runs on: it needs its TPM when it has to prove itself again.
 * @throws TpmError `preflight-tpm-unusable`
 */
export async function requireUsableTpm(
  { clock, log }: { readonly clock: Clock; readonly log: Logger },
  options: {
    readonly tpm: Provisioning['tpm'];
    readonly isBound: () => Promise<boolean>;
    readonly signal: AbortSignal;
    readonly probe?: typeof findTpmProblem;
  },
): Promise<void> {
  const { tpm, isBound, signal, probe = findTpmProblem } = options;
  if (tpm.kind === 'none' || (await isBound())) return;
  const deadlineMs = clock.monotonicMs() + PATIENCE_MS;
  for (let told = false; ; told = true) {
    const problem = await probe(tpm, clock, signal);
    if (problem === undefined) return;
    if (clock.monotonicMs() >= deadlineMs)
      throw new TpmError('preflight-tpm-unusable', `using the TPM of the provisioning: ${problem}`);
    if (!told) log.warn('the TPM does not answer, waiting for it', { path: tpm.path, problem });
    await clock.sleep(PAUSE_MS, signal);
  }
}
