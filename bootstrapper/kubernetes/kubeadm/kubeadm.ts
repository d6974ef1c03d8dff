import { type CommandRunner, ExecError } from '../../../internal/exec/index.ts';
import type { Logger } from '../../../internal/logging/index.ts';
import { KubernetesError } from '../errors.ts';
import { PATHS } from '../settings.ts';

const PHASE_MS = 300_000;

/** Runs single phases of `kubeadm init`. Each phase may be repeated, unlike the whole command. */
export class Kubeadm {
  readonly #commands: CommandRunner;
  readonly #log: Logger;

  constructor(ports: { readonly commands: CommandRunner; readonly log: Logger }) {
    this.#commands = ports.commands;
    this.#log = ports.log;
  }

  /** Runs e.g. `kubeadm init phase certs all`. @throws KubernetesError `kubernetes-kubeadm-failed` */
  async initPhase(phase: readonly [string, ...string[]], signal: AbortSignal): Promise<void> {
    const name = phase.join(' ');
    const options = ['--config', PATHS.kubeadmConfig];
    try {
      await this.#commands.run({
        argv: [`${PATHS.bin}/kubeadm`, 'init', 'phase', ...phase, ...options],
        env: { PATH: `${PATHS.bin}:/usr/sbin:/usr/bin:/sbin:/bin`, HOME: '/root' },
        timeoutMs: PHASE_MS,
        onLine: (line) => this.#log.debug('output of kubeadm', { phase: name, line }),
        signal,
      });
    } catch (error) {
      signal.throwIfAborted();
      const output = error instanceof ExecError ? errorLines(error.outputTail) : '';
      const message = `running kubeadm phase ${name}: ${output}`;
      const details = { phase: name };
      throw new KubernetesError('kubernetes-kubeadm-failed', message, { cause: error, details });
    }
  }
}

/** Returns the last lines of kubeadm's output. They contain the error and precede a general hint. */
function errorLines(tail: string): string {
  const lines = tail
    .split('\n')
    .filter((line) => line.trim() !== '' && !line.startsWith('To see the stack trace'));
  return lines.slice(-4).join(' ').slice(-600);
}
