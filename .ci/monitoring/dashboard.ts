import { DOCTOR_CHECKS, LAYERS, PROBLEMS, type MetricAlert } from '../../internal/doctor/index.ts';

const DATASOURCE = { type: 'prometheus', uid: '${datasource}' };
/** Grafana's grid has 24 columns. */
const COLUMNS = 24;
const HEIGHT = 8;
const COLORS = { critical: 'red', warning: 'orange' } as const;
/** Labels that distinguish the series of a figure. A series without one of them has an empty text there. */
const LEGEND = '{{node}} {{etcd}} {{component}} {{certificate}} {{path}}';

interface Panel {
  readonly title: string;
  readonly type: 'row' | 'stat' | 'table' | 'timeseries';
  readonly width: number;
  readonly height: number;
  /** The members that Grafana knows for this type. */
  readonly body: object;
}

/** A dashboard of Grafana: the problems first, then the figure of each check with its limits, in the layers of `cluster doctor`. */
export function dashboard(): object {
  const figures = new Set<string>();
  const panels = LAYERS.flatMap((layer) => {
    const ofLayer = DOCTOR_CHECKS.flatMap((check) => {
      if (check.layer !== layer || 'none' in check.alert || figures.has(check.alert.figure)) return [];
      figures.add(check.alert.figure);
      return [figurePanel(check.what, check.alert)];
    });
    return ofLayer.length === 0 ? [] : [rowPanel(layer), ...ofLayer];
  });
  return {
    ...{ uid: 'cluster-doctor', title: 'Cluster', tags: ['cluster'], timezone: 'browser', editable: false },
    ...{ schemaVersion: 39, version: 1, refresh: '30s', time: { from: 'now-6h', to: 'now' } },
    templating: {
      list: [{ name: 'datasource', label: 'Prometheus', type: 'datasource', query: 'prometheus' }],
    },
    panels: placed([...problemPanels(), ...panels]),
  };
}

/** Every PromQL expression of a dashboard. */
export function expressionsOf(made: object): readonly string[] {
  const { panels } = made as { readonly panels: readonly { targets?: readonly { expr: string }[] }[] };
  return panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));
}

function problemPanels(): readonly Panel[] {
  const counted = (severity: keyof typeof COLORS): Panel => ({
    ...{ title: severity, type: 'stat', width: 4, height: HEIGHT },
    body: {
      datasource: DATASOURCE,
      targets: [target(`count(${PROBLEMS}{severity="${severity}"}) or vector(0)`, { instant: true })],
      fieldConfig: {
        defaults: { thresholds: steps([{ value: 1, color: COLORS[severity] }]) },
        overrides: [],
      },
    },
  });
  const table: Panel = {
    ...{ title: 'Problems', type: 'table', width: COLUMNS - 8, height: HEIGHT },
    body: {
      datasource: DATASOURCE,
      targets: [target(PROBLEMS, { instant: true, format: 'table' })],
      transformations: [
        {
          id: 'organize',
          options: {
            excludeByName: {
              Time: true,
              __name__: true,
              job: true,
              instance: true,
              address: true,
              control_plane: true,
            },
          },
        },
      ],
    },
  };
  return [counted('critical'), counted('warning'), table];
}

function rowPanel(title: string): Panel {
  return { title, type: 'row', width: COLUMNS, height: 1, body: { collapsed: false, panels: [] } };
}

function figurePanel(title: string, { figure, unit, is, limits }: MetricAlert): Panel {
  const lines = Object.entries(limits).flatMap(([severity, value]) =>
    typeof value === 'number' ? [{ value, color: COLORS[severity as keyof typeof COLORS] }] : [],
  );
  // Grafana colors what is above a threshold, and can only draw the others as lines.
  const isAbove = is === '>';
  return {
    ...{ title, type: 'timeseries', width: COLUMNS / 2, height: HEIGHT },
    body: {
      datasource: DATASOURCE,
      targets: [target(figure, { legendFormat: LEGEND })],
      fieldConfig: {
        defaults: {
          ...(unit === 'bool' ? { unit: 'short', min: 0, max: 1, decimals: 0 } : { unit }),
          custom: { thresholdsStyle: { mode: unit === 'bool' ? 'off' : 'dashed' } },
          thresholds: isAbove ? steps(lines) : steps(lines, 'transparent'),
        },
        overrides: [],
      },
    },
  };
}

function target(expr: string, more: object): object {
  return { refId: 'A', datasource: DATASOURCE, expr, ...more };
}

function steps(lines: readonly { readonly value: number; readonly color: string }[], base = 'green'): object {
  return {
    mode: 'absolute',
    steps: [{ color: base, value: null }, ...lines.toSorted((a, b) => a.value - b.value)],
  };
}

/** Panels from left to right, in lines. */
function placed(panels: readonly Panel[]): readonly object[] {
  let [x, y, lineHeight] = [0, 0, 0];
  return panels.map(({ title, type, width, height, body }, index) => {
    if (x + width > COLUMNS || type === 'row') [x, y, lineHeight] = [0, y + lineHeight, 0];
    const gridPos = { x, y, w: width, h: height };
    [x, lineHeight] = [x + width, Math.max(lineHeight, height)];
    return { id: index + 1, title, type, gridPos, ...body };
  });
}
