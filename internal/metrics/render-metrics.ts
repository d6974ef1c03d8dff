/** One measured value with its labels. */
interface MetricSample {
  readonly labels?: Readonly<Record<string, string>>;
  readonly value: number;
}

/** A metric; its samples have different labels. */
export interface MetricFamily {
  /** snake_case with its unit, like "cluster_agent_uptime_seconds"; a counter ends in "_total". */
  readonly name: string;
  readonly help: string;
  readonly kind: 'gauge' | 'counter';
  readonly samples: readonly MetricSample[];
}

/** Prometheus' text exposition format, version 0.0.4. Values that are not finite are left out. */
export function renderMetrics(families: readonly MetricFamily[]): string {
  return families
    .filter(({ samples }) => samples.length > 0)
    .map(({ name, help, kind, samples }) =>
      [
        `# HELP ${name} ${escape(help, false)}`,
        `# TYPE ${name} ${kind}`,
        ...samples
          .filter(({ value }) => Number.isFinite(value))
          .map(({ labels, value }) => `${name}${renderLabels(labels)} ${value}`),
        '',
      ].join('\n'),
    )
    .join('');
}

function renderLabels(labels: MetricSample['labels']): string {
  const pairs = Object.entries(labels ?? {}).map(([name, value]) => `${name}="${escape(value, true)}"`);
  return pairs.length === 0 ? '' : `{${pairs.join(',')}}`;
}

function escape(text: string, isLabel: boolean): string {
  const escaped = text.replaceAll('\\', '\\\\').replaceAll('\n', '\\n');
  return isLabel ? escaped.replaceAll('"', '\\"') : escaped;
}
