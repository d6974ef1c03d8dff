import { connect } from 'node:net';

const ANSWER_MS = 10_000;
const COMMANDS = ['qmp_capabilities', 'system_powerdown'];

/**
 * Presses the power button of a virtual machine through the monitor of QEMU (QMP), which answers each command. Returns whether QEMU did it:
 * false if it has ended or does not answer. The machine may ignore the button, for example while it is in its firmware.
 */
export async function pressPowerButton(monitor: string, signal: AbortSignal): Promise<boolean> {
  signal.throwIfAborted();
  const socket = connect(monitor);
  const close = (): void => void socket.destroy();
  signal.addEventListener('abort', close, { once: true });
  try {
    return await new Promise<boolean>((resolve) => {
      const fail = (): void => resolve(false);
      let text = '';
      socket.setTimeout(ANSWER_MS, fail).once('error', fail).once('close', fail);
      socket.setEncoding('utf8').on('data', (chunk: string) => {
        text += chunk;
        if (text.includes('"error"')) fail();
        if ((text.match(/"return"/g)?.length ?? 0) >= COMMANDS.length) resolve(true);
      });
      socket.write(COMMANDS.map((execute) => `${JSON.stringify({ execute })}\n`).join(''));
    });
  } finally {
    signal.removeEventListener('abort', close);
    socket.destroy();
  }
}
