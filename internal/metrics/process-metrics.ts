import type { MetricFamily } from './render-metrics.ts';

/** Resource usage of a process, as its `main.ts` reads it. */
export interface ProcessUsage {
  readonly uptimeSeconds: number;
  readonly residentBytes: number;
  readonly heapBytes: number;
  readonly cpuMicroseconds: number;
}

/** The present usage of `self`, which is the `process` of the caller. */
export function usageOf(
  self: Pick<NodeJS.Process, 'memoryUsage' | 'resourceUsage' | 'uptime'>,
): ProcessUsage {
  const { rss, heapUsed } = self.memoryUsage();
  const { userCPUTime, systemCPUTime } = self.resourceUsage();
  return {
    uptimeSeconds: self.uptime(),
    residentBytes: rss,
    heapBytes: heapUsed,
    cpuMicroseconds: userCPUTime + systemCPUTime,
  };
}

/**
 * The metrics that every program has. The name of the program is a label, so that the metrics of several programs can
 * be merged.
 */
export function processMetrics(
  { program, version }: { readonly program: string; readonly version: string },
  usage: ProcessUsage,
): readonly MetricFamily[] {
  const one = (value: number) => [{ labels: { program }, value }];
  return [
    {
      name: 'cluster_program_info',
      help: 'The program and its version.',
      kind: 'gauge',
      samples: [{ labels: { program, version }, value: 1 }],
    },
    {
      name: 'cluster_program_uptime_seconds',
      help: 'Since the program was started.',
      kind: 'gauge',
      samples: one(Math.round(usage.uptimeSeconds)),
    },
    {
      name: 'cluster_program_resident_bytes',
      help: 'Memory of the program, shared pages included.',
      kind: 'gauge',
      samples: one(usage.residentBytes),
    },
    {
      name: 'cluster_program_heap_bytes',
      help: 'Heap of the program that is in use.',
      kind: 'gauge',
      samples: one(usage.heapBytes),
    },
    {
      name: 'cluster_program_cpu_seconds_total',
      help: 'Processor time of the program.',
      kind: 'counter',
      samples: one(usage.cpuMicroseconds / 1e6),
    },
  ];
}
