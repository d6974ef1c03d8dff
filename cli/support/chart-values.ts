/** Values of charts often contain passwords. */
const CHART_VALUES = /^values/i;

/** A configuration without the values of charts. */
export function withoutChartValues(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutChartValues);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(
    Object.entries(value)
      .filter(([key]) => !CHART_VALUES.test(key))
      .map(([key, each]) => [key, withoutChartValues(each)]),
  );
}
