// The system's fonts: the site asks nobody for one, and is a third smaller.
import theme from "vitepress/theme-without-fonts";
import "./site.css";

export default theme;
