/** How severe an alert is: `critical` for what the check calls an error. */
export type Severity = 'critical' | 'warning';

/** What a check looks like in the metrics of the nodes (bootstrapper/exporter). */
export interface MetricAlert {
  /** `node`: each series of the figure has a label `node`. `cluster`: the series are about the whole cluster and have none. */
  readonly scope: 'node' | 'cluster';
  /** PromQL of what the check judges, with all series, also good ones. Binds tighter than a comparison. */
  readonly figure: string;
  /** Unit of the figure, as Grafana names it. `bool`: 0 or 1. */
  readonly unit: 's' | 'percentunit' | 'bool';
  /** How a figure compares with the limit when there is a problem. */
  readonly is: '<' | '<=' | '==' | '>';
  /** The limit of each severity: a number, or PromQL with the same labels as the figure. */
  readonly limits: Readonly<Partial<Record<Severity, number | string>>>;
  /** How long the problem must last, in minutes. */
  readonly forMinutes: number;
  /** A sentence about one problem, with Prometheus' templates for labels and the figure. */
  readonly summary: string;
}

/** Why no metric expresses a check. */
export interface NoAlert {
  readonly none: string;
}

/** The alert of a check, or why it has none. */
export type Alert = MetricAlert | NoAlert;
