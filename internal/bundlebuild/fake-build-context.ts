import { join } from 'node:path';
import type { FakeBuildTools } from '../testing/index.ts';
import type { BuildContext, BuildProgress, BuildReporter } from './build-context.ts';
import { FetchHttp } from './download/http-port.ts';

/** Remembers what a build reports. */
export class FakeReporter implements BuildReporter {
  readonly messages: { readonly code: string; readonly text: string }[] = [];

  say(code: string, text: string): void {
    this.messages.push({ code, text });
  }

  step<T>(_code: string, _title: string, work: (progress: BuildProgress) => Promise<T>): Promise<T> {
    return work({ update: () => undefined });
  }
}

/** The context of a build with these tools and the sources of this checkout. */
export function fakeBuildContext(
  { ports, cache, machine, env }: FakeBuildTools,
  signal = new AbortController().signal,
): BuildContext & { readonly reporter: FakeReporter } {
  return {
    reporter: new FakeReporter(),
    ports: { ...ports, http: new FetchHttp() },
    cache,
    sources: {
      charts: join(import.meta.dirname, '../../cli/charts'),
      programs: join(import.meta.dirname, 'programs'),
    },
    machine,
    env,
    signal,
  };
}
