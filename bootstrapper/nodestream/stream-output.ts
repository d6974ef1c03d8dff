import { Mailbox } from '../../internal/event/index.ts';
import type { Command, CommandRunner } from '../../internal/exec/index.ts';
import { packLines, type Chunk } from './chunks.ts';

/** Number of lines that a slow reader may be behind; further lines are dropped and counted. */
const MAX_BEHIND = 1_000;

/**
 * Runs a program and yields its standard output in whole lines, as it prints them. Ends the program when the
 * reader stops.
 * @param backlog number of lines that the program may print at once when it starts
 */
export async function* streamOutput(
  commands: CommandRunner,
  { argv, backlog }: Pick<Command, 'argv'> & { readonly backlog: number },
  signal: AbortSignal,
): AsyncGenerator<Chunk> {
  const reading = new AbortController();
  const onAbort = (): void => reading.abort(signal.reason);
  signal.addEventListener('abort', onAbort, { once: true });
  const box = new Mailbox<string>(backlog + MAX_BEHIND);
  let dropped = 0;
  const run = commands.run({
    argv,
    onLine: (line, stream) => {
      if (stream === 'stdout' && !box.push(line)) dropped++;
    },
    signal: reading.signal,
  });
  run.then(
    () => box.close(),
    (error: unknown) => box.close({ error }),
  );
  try {
    for await (const line of box.read(signal)) {
      const lost = dropped;
      dropped = 0;
      yield* packLines([line], lost);
    }
  } finally {
    signal.removeEventListener('abort', onAbort);
    reading.abort(new Error('reading the log has ended'));
    await run.catch(() => undefined); // the reader already got the error
  }
}
