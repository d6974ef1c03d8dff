import type { CommandRunner } from '../../../internal/exec/index.ts';
import { ExecError } from '../../../internal/exec/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import { KubernetesError } from '../errors.ts';
import { PATHS } from '../settings.ts';

const PHASE_MS = 300_000;

/** kubeadm's init phases, one at a time: each may be repeated, which a whole `kubeadm init` may not. */
export class Kubeadm {
  readonly #commands: CommandRunner;
  readonly #log: Logger;

  constructor(ports: { readonly commands: CommandRunner; readonly log: Logger }) {
    this.#commands = ports.commands;
    this.#log = ports.log;
  }

  /** Runs e.g. `kubeadm init phase certs all`. */
  async initPhase(phase: readonly [string, ...string[]], signal: AbortSignal): Promise<void> {
    const argv = [
      `${PATHS.bin}/kubeadm`,
      'init',
      'phase',
      ...phase,
      '--config',
      PATHS.kubeadmConfig,
    ] as const;
    try {
      await this.#commands.run({
        argv: [...argv],
        env: { PATH: `${PATHS.bin}:/usr/sbin:/usr/bin:/sbin:/bin`, HOME: '/root' },
        timeoutMs: PHASE_MS,
        onLine: (line) => this.#log.debug('kubeadm says', { phase: phase.join(' '), line }),
        signal,
      });
    } catch (error) {
      signal.throwIfAborted();
      const said = error instanceof ExecError ? lastWords(error.outputTail) : '';
      throw new KubernetesError(
        'kubernetes-kubeadm-failed',
        `running kubeadm phase ${phase.join(' ')}: ${said}`,
        {
          cause: error,
          details: { phase: phase.join(' ') },
        },
      );
    }
  }
}

/** kubeadm's errors stand in its last lines, behind advice that every failure gets. */
function lastWords(tail: string): string {
  const lines = tail
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.startsWith('To see the stack trace'));
  return lines.slice(-4).join(' ').slice(-600);
}
