import { findTpmProblem } from '../../internal/preflight/index.ts';
import type { Provisioning } from '../../internal/config/index.ts';
import type { SystemPorts } from '../../internal/platform/index.ts';
import { TpmError } from './errors.ts';

/** The kernel may load the driver after the agent has started. */
const MAX_WAIT_MS = 30_000;
const PAUSE_MS = 1_000;

/**
 * Waits for the TPM of a machine that belongs to no cluster yet: without it the machine could not prove its identity, and no
 * operator would learn why. A machine that belongs to a cluster starts without it; it needs the TPM at its next attestation.
 * @throws TpmError `preflight-tpm-unusable`
 */
export async function requireUsableTpm(
  { clock, log }: Pick<SystemPorts, 'clock' | 'log'>,
  options: {
    readonly tpm: Provisioning['tpm'];
    readonly isBound: () => Promise<boolean>;
    readonly signal: AbortSignal;
    readonly probe?: typeof findTpmProblem;
  },
): Promise<void> {
  const { tpm, isBound, signal, probe = findTpmProblem } = options;
  if (tpm.kind === 'none' || (await isBound())) return;
  const deadlineMs = clock.monotonicMs() + MAX_WAIT_MS;
  for (let isLogged = false; ; isLogged = true) {
    const problem = await probe(tpm, clock, signal);
    if (problem === undefined) return;
    if (clock.monotonicMs() >= deadlineMs)
      throw new TpmError('preflight-tpm-unusable', `TPM ${tpm.path} unusable: ${problem}`);
    if (!isLogged) log.warn('TPM not usable, retrying', { path: tpm.path, problem });
    await clock.sleep(PAUSE_MS, signal);
  }
}
