/** The severity of an alert. A problem that the check grades as an error has a `critical` alert. */
export type Severity = 'critical' | 'warning';

/** How Prometheus computes a check from the metrics of the nodes (bootstrapper/exporter). */
export interface MetricAlert {
  /**
   * `node`: each series of the figure has a label `node`. `cluster`: the series are about the whole cluster and have no
   * such label.
   */
  readonly scope: 'node' | 'cluster';
  /**
   * PromQL of the number that the check compares with its limit, for all series and not only for bad ones. A comparison
   * can be appended without parentheses.
   */
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

/** The reason why a check has no alert. */
export interface NoAlert {
  readonly none: string;
}

/** The alert of a check, or the reason why the check has no alert. */
export type Alert = MetricAlert | NoAlert;
