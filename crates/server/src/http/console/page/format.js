// Figures as people read them. What is not known is a dash.

const NONE = "-";

/** Returns whether something is a number that can be shown. */
export const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

/** A number of about three digits. */
export function number(value) {
  if (value === "Infinity") return "without end";
  if (!isNumber(value)) return NONE;
  const size = Math.abs(value);
  const digits = size >= 100 || Number.isInteger(value) ? 0 : size >= 10 ? 1 : size >= 0.1 || size === 0 ? 2 : 4;
  return value.toLocaleString("en", { maximumFractionDigits: digits });
}

/** A time in microseconds. */
export function time(us) {
  if (us === "Infinity") return "without end";
  if (!isNumber(us)) return NONE;
  if (us < 1000) return `${number(us)} us`;
  return us < 1e6 ? `${number(us / 1000)} ms` : `${number(us / 1e6)} s`;
}

/** A part of one, in per cent. */
export const percent = (part) => (isNumber(part) ? `${number(part * 100)} %` : NONE);

/** Bytes. */
export function bytes(count) {
  if (!isNumber(count)) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  let size = count;
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${number(size)} ${units[unit]}`;
}

/** A value of a setting, which is of the kind that the setting's name says: a time in microseconds, bytes, or a count. */
export function amount(setting, value) {
  if (/_(delay|interval)$/.test(setting)) return time(value);
  return /_(bytes|size)$/.test(setting) ? bytes(value) : number(value);
}

/** Microseconds of work per second: cores. */
export const cores = (us) => (isNumber(us) ? `${number(us / 1e6)} cores` : NONE);

/** Text as it is. */
export const text = (value) => (value === null || value === undefined || value === "" ? NONE : String(value));

/** A day that is a number, 20260131, as 2026-01-31. */
export const day = (value) => (isNumber(value) ? String(value).replace(/^(\d{4})(\d\d)(\d\d)$/, "$1-$2-$3") : NONE);

/** A moment of a view, "2026-01-31 12:00:00.5+00", without its day if that is today. */
export function moment(value) {
  if (typeof value !== "string") return NONE;
  const [day, clock = ""] = value.split(" ");
  const today = new Date().toISOString().slice(0, 10);
  const short = clock.replace(/\.\d+/, "").replace(/\+00$/, "");
  return day === today ? short : `${day} ${short}`;
}
