import { request } from 'node:https';
import { setTimeout as delay } from 'node:timers/promises';

const EVERY_MS = 50;
const ANSWER_MS = 2_000;

export interface Pauses extends AsyncDisposable {
  /** How often it was asked with success, and the longest time between two such answers until now. */
  seen(): { readonly answers: number; readonly longestMs: number };
}

/** Asks an HTTPS address over and over, each time over a connection of its own, until it is disposed. */
export function watchPauses(url: string): Pauses {
  const stop = new AbortController();
  let answers = 0;
  let longestMs = 0;
  let lastMs = performance.now();
  const loop = async (): Promise<void> => {
    while (!stop.signal.aborted) {
      if (await answersOk(url)) {
        const nowMs = performance.now();
        if (answers > 0) longestMs = Math.max(longestMs, nowMs - lastMs);
        answers++;
        lastMs = nowMs;
      }
      await delay(EVERY_MS);
    }
  };
  const looping = loop();
  return {
    seen: () => ({ answers, longestMs: Math.max(longestMs, performance.now() - lastMs) }),
    [Symbol.asyncDispose]: () => {
      stop.abort();
      return looping;
    },
  };
}

function answersOk(url: string): Promise<boolean> {
  return new Promise((resolve) => {
    const asking = request(
      url,
      { rejectUnauthorized: false, agent: false, timeout: ANSWER_MS },
      (response) => {
        response.resume();
        response.once('end', () => resolve(response.statusCode === 200));
      },
    );
    asking.once('timeout', () => asking.destroy(new Error('timeout')));
    asking.once('error', () => resolve(false));
    asking.end();
  });
}
